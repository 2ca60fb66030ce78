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

// insideOf converts a request for a run in a living sandbox. streams reports whether the client reads its events.
func insideOf(r *api.SandboxRunRequest, streams bool) (x engine.RunRequest, err error) {
	x = engine.RunRequest{ID: sandbox.NewID(), Context: r.Context, Background: streams || r.Background,
		Interactive: r.Interactive}
	if x.Interactive && !x.Background {
		return x, sandbox.Invalidf("interactive", "requires background or Accept: text/event-stream")
	}
	if r.Terminal != nil {
		x.Terminal = new(sizeOf(r.Terminal))
		if !x.Background {
			return x, sandbox.Invalidf("terminal", "requires background or Accept: text/event-stream")
		}
	}
	if len(r.Tools) > 0 && !x.Background {
		return x, sandbox.Invalidf("tools", "requires background or Accept: text/event-stream")
	}
	if x.Request, err = requestOf(&r.Program); err != nil {
		return x, err
	}
	if x.Request.Dir = r.Dir; r.Entry != nil {
		if x.Request.Entry = *r.Entry; x.Request.Entry == "" {
			return x, sandbox.Invalidf("entry", "must be the path of a file")
		}
	}
	limits, err := answer.LimitsOf(&api.Limits{TimeoutS: r.Limits.TimeoutS})
	x.Request.Timeout = limits.Timeout
	if r.Background {
		x.Detach()
	}
	return x, err
}

// languageOf sets the language of code without one: that of its context, else the default.
func (a *apiV1) languageOf(s *engine.Sandbox, x *engine.RunRequest) error {
	if x.Request.Code == nil || x.Request.Language != "" {
		return nil
	}
	x.Request.Language = a.defaultLanguage()
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
	var req api.SandboxRunRequest
	release, err := a.readJSON(w, r, &req)
	detached := false
	defer func() {
		if !detached {
			release()
		}
	}()
	if err != nil {
		return err
	}
	streams := wantsEvents(r)
	run, err := insideOf(&req, streams)
	if err == nil {
		err = a.languageOf(s, &run)
	}
	if err != nil {
		return err
	}
	include := req.Include // or the closure would hold all of req
	if run.Background {
		x, err := s.Start(r.Context(), run)
		if err != nil {
			return err
		}
		detached = true // the run holds the decoded body, so it counts as held until the run ends
		go func() {
			<-x.Done()
			release()
		}()
		return a.began(w, r, x, &run, streams && !req.Background)
	}
	w.Header().Set(api.HeaderRun, string(run.ID))
	text, err := a.Hold(r.Context(), w, &run.Request, answerWith(include),
		func(deliver func(*sandbox.Result) error) error {
			run.Deliver = deliver
			_, err := s.Run(r.Context(), run)
			return err
		})
	if err != nil {
		return err
	}
	release()
	return a.WriteJSON(w, text)
}

// began answers for a run that continues without its client: with the run, or with its events.
func (a *apiV1) began(w *httpd.Response, r *http.Request, x *engine.Run, run *engine.RunRequest, follow bool) error {
	a.Began(w, &run.Request, x.ID())
	w.Header().Set(api.HeaderRun, string(x.ID()))
	if follow {
		return a.follow(w, r, x, 0, math.MaxUint64)
	}
	return a.WriteStatus(w, http.StatusAccepted, showRun(x.Info()))
}

// onRun finds the run of a request.
func onRun(h func(*httpd.Response, *http.Request, *engine.Run) error) living {
	return func(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
		x, err := s.FindRun(sandbox.ID(r.PathValue("run")))
		if err != nil {
			return err
		}
		return h(w, r, x)
	}
}

func (a *apiV1) listRuns(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	metadata, err := (&query{r: r}).metadata()
	if err != nil {
		return err
	}
	out, omitted := a.NewList(w, "runs"), 0
	err = s.EachRun(func(x engine.RunInfo) error {
		if !includes(x.Metadata, metadata) {
			if omitted++; omitted%httpd.StepRuns == 0 {
				w.Steps(1)
			}
			return nil
		}
		return out.Add(showRun(x))
	})
	if err != nil {
		return out.Fail(err)
	}
	return out.End(nil)
}

func (a *apiV1) getRun(w *httpd.Response, r *http.Request, x *engine.Run) (err error) {
	out := showRun(x.Info())
	if (&query{r: r}).truth("text") {
		if out.Text, err = a.textOf(r.Context(), w, x); err != nil {
			return err
		}
	}
	return a.WriteJSON(w, out)
}

func showRun(x engine.RunInfo) api.Run {
	out := api.Run{ID: x.ID, Context: x.Context, Language: x.Language, Command: x.Command, Status: x.Status,
		BeganAt: x.Began.UTC(), DeadlineAt: x.Deadline.UTC(), Background: x.Background, Metadata: x.Metadata}
	if x.ExitCode >= 0 {
		out.ExitCode = &x.ExitCode
	}
	return out
}

// cancelRun cancels a run and answers when it has ended.
func (a *apiV1) cancelRun(w *httpd.Response, r *http.Request, x *engine.Run) error {
	return done(w, x.Stop(r.Context()))
}

// stdinPiece is how much of a body goes to a program's stdin at a time.
const stdinPiece = 64 << 10

// sendStdin passes the body to the program as it arrives.
func (a *apiV1) sendStdin(w *httpd.Response, r *http.Request, x *engine.Run) error {
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

func (a *apiV1) signalRun(w *httpd.Response, r *http.Request, x *engine.Run, req *api.SignalRequest) error {
	signal, err := signalIn(req.Signal)
	if err != nil {
		return err
	}
	return done(w, x.Signal(r.Context(), signal))
}

func (a *apiV1) resizeTerminal(w *httpd.Response, r *http.Request, x *engine.Run, req *api.TerminalSize) error {
	return done(w, x.Resize(r.Context(), sizeOf(req)))
}

// sizeOf converts a size, which the engine checks.
func sizeOf(t *api.TerminalSize) engine.TerminalSize {
	most := func(n int) uint16 { return uint16(min(max(n, 0), math.MaxUint16)) }
	return engine.TerminalSize{Rows: most(t.Rows), Cols: most(t.Columns)}
}

// signalNames are Linux's, from 1; this host's may differ (signal(7)).
var signalNames = strings.Fields("HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT " +
	"CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS")

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
