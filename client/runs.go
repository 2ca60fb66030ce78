package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ErrCut reports a stream of events that ended before its last event.
var ErrCut = errors.New("the stream of events broke off")

// cut returns ErrCut with its cause, which may be nil, and a fix.
func cut(cause error, fix string) error {
	err := ErrCut
	if cause != nil {
		err = fmt.Errorf("%w: %w", ErrCut, cause)
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "server", Err: err, Fix: fix}
}

// Stream runs code or a command and hands each event to take. The run continues if ctx ends.
func (c *Client) Stream(ctx context.Context, name string, r api.SandboxRunRequest, take func(Event) error) error {
	return c.toEnd(ctx, call{method: http.MethodPost, path: sandboxPath(name, "run"), send: r}, followAgain, take)
}

// Fixes of a stream that ended early.
const (
	followAgain = "follow the run again, after the id of its last event"
	runAgain    = "run it again: the server ended the run with its stream"
)

// toEnd hands events to take, up to the last one. If the stream ends earlier, it returns ErrCut with a fix.
func (c *Client) toEnd(ctx context.Context, r call, fix string, take func(Event) error) error {
	ended := false
	var refused error // by take
	err := c.events(ctx, r, func(e Event) error {
		ended = ended || e.Done != nil || e.Failed != nil
		refused = take(e)
		return refused
	})
	var answered *sandbox.Error
	switch {
	case refused != nil:
		return refused
	case ended:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &answered):
		return err
	}
	return cut(err, fix)
}

// Run runs code or a command and returns its answer. The end of ctx cancels the run.
func (c *Client) Run(ctx context.Context, name string, r api.SandboxRunRequest) (a api.Answer, err error) {
	_, err = c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "run"), send: r}, &a)
	return a, err
}

// Start starts a run in the background.
func (c *Client) Start(ctx context.Context, name string, r api.SandboxRunRequest) (run api.Run, err error) {
	r.Background = true
	_, err = c.get(ctx, call{method: http.MethodPost, path: sandboxPath(name, "run"), send: r}, &run)
	return run, err
}

// Runs lists the runs in progress, and the last that ended; the oldest first.
func (c *Client) Runs(ctx context.Context, name string) ([]api.Run, error) {
	var list api.RunList
	_, err := c.get(ctx, call{method: http.MethodGet, path: sandboxPath(name, "runs")}, &list)
	return list.Runs, err
}

// From selects the events of a run to follow.
type From struct {
	After uint64 // only those with a higher id
	Wait  bool   // wait for new events, until the last one
	// Tools whose functions answer calls, each in its own goroutine; their context ends with Follow. A call that was
	// answered before is called again, without effect on the code.
	Tools []sandbox.Tool
}

// Follow hands the events of a run to take.
func (c *Client) Follow(ctx context.Context, name string, run string, from From, take func(Event) error) error {
	r := call{method: http.MethodGet, path: sandboxPath(name, "runs", run, "events"), query: url.Values{}}
	if from.After > 0 {
		r.query.Set("after", strconv.FormatUint(from.After, 10))
	}
	if !from.Wait {
		r.query.Set("follow", "0")
	}
	a := answering{client: c, name: name, run: run, tools: from.Tools}
	err := a.follow(ctx, take, func(take func(Event) error) error { return c.toEnd(ctx, r, followAgain, take) })
	if from.Wait || !errors.Is(err, ErrCut) {
		return err
	}
	return nil
}

// Input appends to the stdin of an interactive run, and closes it with eof.
func (c *Client) Input(ctx context.Context, name string, run string, data []byte, eof bool) error {
	r := call{method: http.MethodPost, path: sandboxPath(name, "runs", run, "stdin"), body: bytes.NewReader(data)}
	if eof {
		r.query = url.Values{"eof": {"1"}}
	}
	_, err := c.get(ctx, r, nil)
	return err
}

// Signal sends a signal to a run. Code in a context accepts only SIGINT, which interrupts it.
func (c *Client) Signal(ctx context.Context, name string, run string, signal string) error {
	return c.post(ctx, api.SignalRequest{Signal: signal}, name, "runs", run, "signal")
}

// Cancel ends a run. It is no error if the run has ended already.
func (c *Client) Cancel(ctx context.Context, name string, run string) error {
	_, err := c.get(ctx, call{method: http.MethodDelete, path: sandboxPath(name, "runs", run)}, nil)
	if err != nil && sandbox.KindOf(err) == sandbox.NotFound {
		return nil
	}
	return err
}
