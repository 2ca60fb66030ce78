package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func showCall(at float64, c sandbox.Call) api.CallEvent {
	return api.CallEvent{TimeMS: at, Call: c.ID, Name: c.Name, Arguments: c.Arguments, TimeoutS: c.Timeout.Seconds()}
}

// callsOf converts the tools of a request.
func callsOf(tools []api.Tool, l *api.CallLimits) sandbox.Calls {
	c := sandbox.Calls{Tools: toolsOf(tools)}
	if l != nil {
		c.Limits = sandbox.CallLimits{Calls: l.Calls, Bytes: l.Bytes, Timeout: secondsOf(l.AnswerS),
			Wait: secondsOf(l.WaitS)}
	}
	return c
}

// secondsOf converts seconds to a duration. One that is too large stays too large.
func secondsOf(s float64) time.Duration {
	const most = 1e9 // seconds
	return time.Duration(max(min(s, most), -1) * float64(time.Second))
}

func toolsOf(list []api.Tool) []sandbox.Tool {
	tools := make([]sandbox.Tool, len(list))
	for i, t := range list {
		tools[i] = sandbox.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema}
	}
	return tools
}

// answerCall is POST /v1/sandboxes/{id}/runs/{run}/calls/{call}.
func (a *apiV1) answerCall(w *httpd.Response, r *http.Request, x *engine.Run, req *api.CallAnswer) error {
	id, err := callIn(r)
	if err == nil && req.Value != nil && req.Error != "" {
		err = sandbox.Invalidf("value", "give either value or error")
	}
	if err != nil {
		return err
	}
	// The answer is held until the driver has it, so its body counts until then, also if the client leaves. Only a
	// revoked key ends it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	defer context.AfterFunc(a.Stopping(), cancel)()
	defer context.AfterFunc(r.Context(), func() {
		if w.Revoked() {
			cancel()
		}
	})()
	return done(w, x.Answer(ctx, id, sandbox.CallAnswer{Value: req.Value, Error: req.Error}))
}

// answerOnce is POST /v1/runs/{run}/calls/{call}.
func (a *apiV1) answerOnce(w *httpd.Response, r *http.Request) error {
	x, err := a.Engine().CallingRun(sandbox.ID(r.PathValue("run")), w.Key)
	if err != nil {
		return err
	}
	return withBody(a, a.answerCall)(w, r, x)
}

// callIn is the number of the call in the path.
func callIn(r *http.Request) (uint64, error) {
	text := r.PathValue("call")
	id, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, sandbox.Invalidf("call", "%.40q is not the number of a call", text)
	}
	return id, nil
}
