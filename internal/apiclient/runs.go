package apiclient

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Run asks for an execution in a living sandbox: code in a context, or a command.
type Run struct {
	Code        *string           `json:"code,omitempty"`
	Language    string            `json:"language,omitempty"`
	Context     string            `json:"context,omitempty"`
	Command     []string          `json:"command,omitempty"`
	Args        []string          `json:"args,omitempty"`
	StdinBase64 []byte            `json:"stdin_base64,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	Files       []File            `json:"files,omitempty"`
	ReturnFiles []string          `json:"return_files,omitempty"`
	Packages    []string          `json:"packages,omitempty"`
	AllowBuild  bool              `json:"allow_build,omitempty"`
	Limits      RunLimits         `json:"limits,omitzero"`
	Background  bool              `json:"background,omitempty"`
	Checks      sandbox.CheckMode `json:"checks,omitempty"`
	Interactive bool              `json:"interactive,omitempty"` // stdin stays open for Input
}

// RunLimits are the limits of an execution; all others are those of its sandbox.
type RunLimits struct {
	TimeoutS float64 `json:"timeout_s,omitempty"` // 0 is that of the sandbox
}

// File is a file that goes into the workspace before the execution.
type File struct {
	Path          string `json:"path"`
	Mode          string `json:"mode,omitempty"` // octal
	ContentBase64 []byte `json:"content_base64"`
}

// Execution describes an execution in a living sandbox.
type Execution struct {
	ID         string    `json:"id"`
	Context    string    `json:"context,omitempty"`
	Language   string    `json:"language,omitempty"`
	Command    []string  `json:"command,omitempty"`
	Status     string    `json:"status"`
	ExitCode   *int      `json:"exit_code"`
	BeganAt    time.Time `json:"began_at"`
	DeadlineAt time.Time `json:"deadline_at"`
	Background bool      `json:"background"`
}

// runHeader has the id of an execution, as soon as there is an answer.
const runHeader = "Fumehood-Run-Id"

// errCut is a stream of events that ended before its last one.
var errCut = &sandbox.Error{Kind: sandbox.Unavailable, Op: "server", Msg: "the stream of events broke off",
	Fix: "fumehood logs NAME -f follows on"}

// Stream runs code or a command and hands each event to take, as it comes. The execution goes on if ctx ends. The first event is one with
// RunID.
func (c *Client) Stream(ctx context.Context, name string, asks Run, take func(Event) error) error {
	response, err := c.do(ctx, call{method: http.MethodPost, path: sandboxPath(name, "run"), send: asks,
		header: http.Header{"Accept": {"text/event-stream"}}})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if id := response.Header.Get(runHeader); id != "" {
		if err := take(Event{RunID: id}); err != nil {
			return err
		}
	}
	return c.toEnd(ctx, response, take)
}

// toEnd reads events up to the last one.
func (c *Client) toEnd(ctx context.Context, response *http.Response, take func(Event) error) error {
	ended := false
	var refused error // by take
	err := events(response.Body, func(e Event) error {
		ended = ended || e.Done != nil || e.Failed != nil
		refused = take(e)
		return refused
	})
	switch {
	case refused != nil:
		return refused
	case ended:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "server", Msg: errCut.Msg, Fix: errCut.Fix, Err: err}
	}
	return errCut
}

// Run runs code or a command and returns its answer. The end of ctx cancels the execution.
func (c *Client) Run(ctx context.Context, name string, asks Run) (a api.Answer, err error) {
	_, err = c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "run"), send: asks}, &a)
	return a, err
}

// Start begins an execution in the background and returns its id.
func (c *Client) Start(ctx context.Context, name string, asks Run) (id string, err error) {
	asks.Background = true
	var started struct {
		ID string `json:"id"`
	}
	_, err = c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "run"), send: asks}, &started)
	return started.ID, err
}

// Executions lists those that run, and the last that ended, the oldest first.
func (c *Client) Executions(ctx context.Context, name string) ([]Execution, error) {
	var list struct {
		Runs []Execution `json:"runs"`
	}
	_, err := c.get(ctx, call{method: http.MethodGet, path: sandboxPath(name, "runs")}, &list)
	return list.Runs, err
}

// Execution describes one execution.
func (c *Client) Execution(ctx context.Context, name, run string) (x Execution, err error) {
	_, err = c.get(ctx, call{method: http.MethodGet, path: sandboxPath(name, "runs", run)}, &x)
	return x, err
}

// From says which events of an execution to follow.
type From struct {
	After uint64 // only those with a higher id
	Wait  bool   // for new ones, until the last; else only those that are there
}

// Follow hands the events of an execution to take.
func (c *Client) Follow(ctx context.Context, name, run string, from From, take func(Event) error) error {
	asks := call{method: http.MethodGet, path: sandboxPath(name, "runs", run, "events"), header: http.Header{"Accept": {"text/event-stream"}}}
	asks.query = url.Values{}
	if from.After > 0 {
		asks.query.Set("after", strconv.FormatUint(from.After, 10))
	}
	if !from.Wait {
		asks.query.Set("follow", "0")
	}
	response, err := c.do(ctx, asks)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := c.toEnd(ctx, response, take); !errors.Is(err, errCut) || from.Wait {
		return err
	}
	return nil
}

// Input appends to the stdin of an interactive execution, and closes it with eof.
func (c *Client) Input(ctx context.Context, name, run string, data []byte, eof bool) error {
	asks := call{method: http.MethodPost, path: sandboxPath(name, "runs", run, "stdin"), body: bytes.NewReader(data),
		header: http.Header{"Content-Type": {"application/octet-stream"}}}
	if eof {
		asks.query = url.Values{"eof": {"1"}}
	}
	_, err := c.get(ctx, asks, nil)
	return err
}

// Signal sends a signal to an execution. Code in a context takes only SIGINT, which interrupts it.
func (c *Client) Signal(ctx context.Context, name, run, signal string) error {
	_, err := c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "runs", run, "signal"),
		send: map[string]string{"signal": signal}}, nil)
	return err
}

// Cancel ends an execution. One that has ended already is no error.
func (c *Client) Cancel(ctx context.Context, name, run string) error {
	_, err := c.get(ctx, call{method: http.MethodDelete, path: sandboxPath(name, "runs", run)}, nil)
	var gone *sandbox.Error
	if errors.As(err, &gone) && gone.Kind == sandbox.NotFound {
		return nil
	}
	return err
}
