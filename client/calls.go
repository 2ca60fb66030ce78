package client

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/toolcall"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// How often an answer is sent again to a server that restarts.
const (
	answerRetries = 30
	answerPause   = 200 * time.Millisecond
)

// NewTool returns the tool of a function. Its schema is that of In, a struct with the names of encoding/json.
func NewTool[In any](name, description string, call func(context.Context, In) (any, error)) (sandbox.Tool, error) {
	return toolcall.New(name, description, call)
}

// Tools returns tools as a request has them.
func Tools(tools ...sandbox.Tool) []api.Tool {
	out := make([]api.Tool, len(tools))
	for i, t := range tools {
		out[i] = api.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema}
	}
	return out
}

// Answer answers a call of a run in a sandbox, or of a one-shot run if name is "". It is NotFound once the run has
// ended, and Exists if the call has its answer.
func (c *Client) Answer(ctx context.Context, name, run string, number uint64, answer api.CallAnswer) error {
	path := "/v1/runs/" + url.PathEscape(run)
	if name != "" {
		path = sandboxPath(name, "runs", run)
	}
	path += "/calls/" + strconv.FormatUint(number, 10)
	_, err := c.get(ctx, call{method: http.MethodPost, path: path, send: answer}, nil)
	return err
}

// StreamTools is Stream for code that can call tools. Their functions answer the calls, each in its own goroutine. It
// returns once all functions have returned; their context ends with the stream.
func (c *Client) StreamTools(
	ctx context.Context, name string, r api.SandboxRunRequest, tools []sandbox.Tool, take func(Event) error,
) error {
	r.Tools = Tools(tools...)
	a := answering{client: c, name: name, tools: tools}
	return a.follow(ctx, take, func(take func(Event) error) error { return c.Stream(ctx, name, r, take) })
}

// answering answers the calls of a run.
type answering struct {
	client *Client
	name   string // of the sandbox; "" for a one-shot run
	run    string // "" until it has started
	tools  []sandbox.Tool
	all    sync.WaitGroup // of the calls
}

// follow follows the run, and waits for the functions that it called.
func (a *answering) follow(
	ctx context.Context, take func(Event) error, follow func(take func(Event) error) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer a.all.Wait()
	defer cancel()
	return follow(func(e Event) error {
		if e.Started != nil {
			a.run = string(e.Started.ID)
		}
		if call := e.Call; call != nil {
			of := func(t sandbox.Tool) bool { return t.Name == call.Name && t.Call != nil }
			if i := slices.IndexFunc(a.tools, of); i >= 0 { // else another client has it
				run := a.run
				a.all.Go(func() { a.call(ctx, run, a.tools[i], call) })
			}
		}
		return take(e)
	})
}

// call calls a function and sends its answer.
func (a *answering) call(ctx context.Context, run string, tool sandbox.Tool, call *api.CallEvent) {
	within := time.Duration(call.TimeoutS * float64(time.Second))
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	given := toolcall.Invoke(limited, tool, call.Arguments)
	answer := api.CallAnswer{Value: given.Value, Error: given.Error}
	for range answerRetries {
		err := a.client.Answer(limited, a.name, run, call.Call, answer)
		switch kind := sandbox.KindOf(err); {
		case err == nil:
			return
		case kind == sandbox.TooLarge, kind == sandbox.Invalid:
			if answer.Error != "" {
				return
			}
			answer = api.CallAnswer{Error: err.Error()}
			continue
		case kind != sandbox.Unavailable && kind != sandbox.Busy: // the run ended, or another client was first
			return
		}
		select {
		case <-time.After(answerPause):
		case <-limited.Done():
			return
		}
	}
}
