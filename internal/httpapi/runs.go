package httpapi

import (
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// InsideRequest is the body of POST /v1/sandboxes/{id}/run.
type InsideRequest struct {
	Language    string            `json:"language" doc:"Name or alias of a language; with code, that of the context, else python." example:"python"`
	Code        *string           `json:"code" doc:"Source text to run in a context, or of a language without contexts in a process of its own. Give exactly one of code, command and entry." example:"x = 6*7; x" pattern:"\\S" one:"program"`
	Command     []string          `json:"command" doc:"A program and its arguments, run without a shell, in a process of its own." max:"4096" one:"program"`
	Entry       *string           `json:"entry" doc:"A file of the workspace to run as a program of its language." pattern:"." one:"program" example:"main.py"`
	Context     string            `json:"context" doc:"Name or id of a context, for code. Absent is the context named default of the language, which is made by its first run." example:"default"`
	Args        []string          `json:"args" doc:"Arguments of the entry." max:"4096"`
	Dir         string            `json:"dir" doc:"Working directory of a command or an entry; /workspace if absent."`
	Stdin       string            `json:"stdin" doc:"Standard input of a command or an entry, as text." nul:"ok"`
	StdinBase64 []byte            `json:"stdin_base64" doc:"Standard input as base64, for bytes that are not text. Give at most one of stdin and stdin_base64."`
	Env         map[string]string `json:"env" doc:"Environment variables of a command or an entry, over those of the sandbox." max:"1024"`
	Files       []FileIn          `json:"files" doc:"Files to write to /workspace before the start." max:"10000"`
	ReturnFiles []string          `json:"return_files" doc:"Patterns of files below /workspace that are handed back if this run made or changed them; ** is any depth. Not with background or a stream." max:"256" example:"**/*.png"`
	Packages    []string          `json:"packages" doc:"Packages that are added to the sandbox before the run, as in POST /v1/run. They stay, and so do those of a line %pip install in Python code." max:"500" example:"auto"`
	AllowBuild  bool              `json:"allow_build" doc:"Let packages run code of theirs while they are installed."`
	Limits      InsideLimits      `json:"limits" doc:"All other limits are the sandbox's."`
	Background  bool              `json:"background" doc:"Answer at once, with the id of the run. Its events can be read as often as you like."`
	Interactive bool              `json:"interactive" doc:"Keep stdin open for POST .../stdin. Goes with a command or an entry, and with background or a stream."`
	Metadata    map[string]string `json:"metadata" doc:"Any strings of yours. They are written to the log." max:"32"`
	Checks      sandbox.CheckMode `json:"checks" doc:"As in /v1/run." enum:"off,warn,enforce"`
	Include     []string          `json:"include" doc:"Sections of the answer that are to be there also where they have nothing to say." max:"16" enum:"compile,findings,output,skipped_files,sandbox"`
}

// InsideLimits are the limits of one run in a living sandbox.
type InsideLimits struct {
	TimeoutS *float64 `json:"timeout_s" doc:"Wall time in seconds." over:"0" example:"30"`
}

// Begun is the answer to a run in the background.
type Begun struct {
	ID     sandbox.ID     `json:"id" doc:"Of the run."`
	Status sandbox.Status `json:"status" enum:"running"`
}

// RunShown is a run in a living sandbox.
type RunShown struct {
	ID         sandbox.ID     `json:"id"`
	Context    string         `json:"context,omitempty" doc:"Of code: the name of its context."`
	Language   string         `json:"language,omitempty" doc:"Of code and entries."`
	Command    []string       `json:"command,omitempty"`
	Status     sandbox.Status `json:"status" enum:"running,succeeded,failed,timeout,out_of_memory,output_limit,killed,canceled,rejected,lost"`
	ExitCode   *int           `json:"exit_code,omitempty" doc:"Absent while it runs, and if a signal ended it or nothing ran."`
	BeganAt    string         `json:"began_at" doc:"RFC 3339."`
	DeadlineAt string         `json:"deadline_at" doc:"When it times out."`
	Background bool           `json:"background" doc:"It goes on without its client: in the background or as a stream."`
}

// RunList is the answer to GET /v1/sandboxes/{id}/runs.
type RunList struct {
	Runs []RunShown `json:"runs" doc:"All in progress, and the last that ended; the oldest first."`
}

// SignalRequest is the body of POST /v1/sandboxes/{id}/runs/{run}/signal.
type SignalRequest struct {
	Signal string `json:"signal" required:"true" doc:"Name or number on Linux. Code in a context takes SIGINT only." number:"ok" example:"SIGINT"`
}

// runHeader has the id of a run in answers that are not JSON, or come before its end.
const runHeader = "Fumehood-Run-Id"

// exec checks what concerns this API alone and returns the engine's value.
func (r *InsideRequest) exec(streams bool) (x engine.Exec, err error) {
	if err := checkInclude(r.Include); err != nil {
		return x, err
	}
	x = engine.Exec{ID: sandbox.NewID(), Context: r.Context, Detached: streams || r.Background, Interactive: r.Interactive}
	if x.Interactive && !x.Detached {
		return x, sandbox.Invalidf("interactive", "goes with background or Accept: text/event-stream: nobody could know the run's id before its end")
	}
	q := &x.Request
	*q = sandbox.Request{Language: r.Language, Command: r.Command, Args: r.Args, Dir: r.Dir, Return: sandbox.Return{Globs: r.ReturnFiles}, Metadata: r.Metadata,
		Packages: sandbox.PackagesOf(r.Packages, r.AllowBuild, ""), Checks: r.Checks}
	if r.Code != nil {
		q.Code = []byte(*r.Code)
	}
	if r.Entry != nil {
		q.Entry = *r.Entry
	}
	limits, err := answer.Contract(&api.Limits{TimeoutS: r.Limits.TimeoutS})
	if err != nil {
		return x, err
	}
	q.Timeout = limits.Timeout
	if q.Files, err = filesIn(r.Files); err != nil {
		return x, err
	}
	if q.Env, err = envIn(r.Env); err != nil {
		return x, err
	}
	q.Stdin, err = stdinIn(r.Stdin, r.StdinBase64)
	return x, err
}

// languageOf completes the language of code that names none.
func (a *apiV1) languageOf(s *engine.Sandbox, x *engine.Exec) error {
	if x.Request.Code == nil || x.Request.Language != "" {
		return nil
	}
	x.Request.Language = a.Engine().Languages()[0].Name
	if x.Context != "" && x.Context != sandbox.DefaultContext {
		c, err := s.Context(x.Context)
		if err != nil {
			return err
		}
		x.Request.Language = c.Info().Language
	}
	return nil
}

// runInside is POST /v1/sandboxes/{id}/run.
func (a *apiV1) runInside(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req InsideRequest
	release, err := a.readJSON(w, r, &req)
	detached := false
	defer func() {
		if !detached { // else the body counts as held until the run is over, which holds what came in it
			release()
		}
	}()
	if err != nil {
		return err
	}
	streams := wantsEvents(r)
	asks, err := req.exec(streams)
	if err == nil {
		err = a.languageOf(s, &asks)
	}
	if err != nil {
		return err
	}
	include := req.Include // or the closure would hold all of req
	if asks.Detached {
		x, err := s.Start(r.Context(), asks)
		if err != nil {
			return err
		}
		detached = true
		go func() { // ends with the run
			<-x.Done()
			release()
		}()
		return a.began(w, r, x, &asks, streams && !req.Background)
	}
	w.Header().Set(runHeader, string(asks.ID))
	held, err := a.Hold(r.Context(), w, &asks.Request, func(r *sandbox.Result) *answer.JSON { return answer.JSONOf(answer.New(answer.HTTP, r, include...)) },
		func(deliver func(*sandbox.Result) error) error {
			asks.Deliver = deliver
			_, err := s.Run(r.Context(), asks)
			return err
		})
	defer held.Release()
	if err != nil {
		return err
	}
	release()
	return a.WriteText(w, held.Text)
}

// began answers for a run that goes on without its client, or follows it for one that wants events.
func (a *apiV1) began(w *httpd.Response, r *http.Request, x *engine.Execution, asks *engine.Exec, follow bool) error {
	a.Began(w, &asks.Request, x.ID())
	w.Header().Set(runHeader, string(x.ID()))
	if follow {
		return a.follow(w, r, x, 0, math.MaxUint64)
	}
	return a.WriteStatus(w, http.StatusAccepted, Begun{x.ID(), sandbox.StatusRunning})
}

// onRun finds the run of a request.
func onRun(h func(*httpd.Response, *http.Request, *engine.Execution) error) living {
	return func(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
		x, err := s.Execution(sandbox.ID(r.PathValue("run")))
		if err != nil {
			return err
		}
		return h(w, r, x)
	}
}

func (a *apiV1) listRuns(w *httpd.Response, _ *http.Request, s *engine.Sandbox) error {
	runs := s.Executions()
	out := RunList{Runs: make([]RunShown, len(runs))}
	for i, x := range runs {
		out.Runs[i] = showRun(x)
	}
	return a.WriteJSON(w, out)
}

func (a *apiV1) getRun(w *httpd.Response, _ *http.Request, x *engine.Execution) error {
	return a.WriteJSON(w, showRun(x.Info()))
}

func showRun(x engine.ExecutionInfo) RunShown {
	out := RunShown{ID: x.ID, Context: x.Context, Language: x.Language, Command: x.Command, Status: x.Status, BeganAt: when(x.Began),
		DeadlineAt: when(x.Deadline), Background: x.Detached}
	if x.ExitCode >= 0 {
		out.ExitCode = &x.ExitCode
	}
	return out
}

// cancelRun cancels a run and answers when it has ended.
func (a *apiV1) cancelRun(w *httpd.Response, r *http.Request, x *engine.Execution) error {
	x.Cancel()
	select {
	case <-x.Done():
	case <-r.Context().Done():
	}
	return done(w, nil)
}

// stdinPiece is how much of a body goes to a program's stdin at a time.
const stdinPiece = 64 << 10

// sendStdin passes the body on as it comes.
func (a *apiV1) sendStdin(w *httpd.Response, r *http.Request, x *engine.Execution) error {
	body, err := a.StreamBody(w, r, a.MaxBody())
	if err != nil {
		return err
	}
	eof := (&query{r: r}).truth("eof")
	buf := make([]byte, stdinPiece)
	for {
		n, err := io.ReadFull(body, buf)
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return err
		}
		if n > 0 || last && eof {
			if err := x.Input(r.Context(), buf[:n], last && eof); err != nil {
				return err
			}
		}
		if last {
			return done(w, nil)
		}
	}
}

func (a *apiV1) signalRun(w *httpd.Response, r *http.Request, x *engine.Execution) error {
	var req SignalRequest
	release, err := a.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	signal, err := signalIn(req.Signal)
	if err != nil {
		return err
	}
	return done(w, x.Signal(r.Context(), signal))
}

// signalNames are Linux's, from 1; this host's may differ (signal(7)).
var signalNames = strings.Fields("HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG " +
	"XCPU XFSZ VTALRM PROF WINCH IO PWR SYS")

const maxSignal = 64 // the last real-time signal

func signalIn(text string) (syscall.Signal, error) {
	if i := slices.Index(signalNames, strings.TrimPrefix(strings.ToUpper(text), "SIG")); i >= 0 {
		return syscall.Signal(i + 1), nil
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= maxSignal {
		return syscall.Signal(n), nil
	}
	return 0, sandbox.Invalidf("signal", "%.40q is not a signal, such as SIGINT or 2", text)
}

// wholeNumber is a JSON number as text: without a fraction if it has none.
func wholeNumber(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
