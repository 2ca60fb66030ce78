package httpapi

import (
	"context"
	"mime"
	"net/http"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// readJSON reads and decodes the body of a request. The body counts as held until release, as the decoded value lives
// as long as the run. The caller always calls release; twice is harmless.
func (a *apiV1) readJSON(w *httpd.Response, r *http.Request, into any) (release func(), err error) {
	b, err := a.ReadBody(w, r)
	if err == nil {
		err = decode(b.Data, into)
	}
	b.Data = nil // the decoded value is a copy
	return b.Release, err
}

// withBody decodes the body of a request for a handler. The body counts as held until the handler returns.
func withBody[T, On any](
	a *apiV1, h func(*httpd.Response, *http.Request, On, *T) error,
) func(*httpd.Response, *http.Request, On) error {
	return func(w *httpd.Response, r *http.Request, on On) error {
		var req T
		release, err := a.readJSON(w, r, &req)
		defer release()
		if err != nil {
			return err
		}
		return h(w, r, on, &req)
	}
}

// defaultLanguage is the language of code that names none.
func (a *apiV1) defaultLanguage() string { return a.Engine().Languages()[0].Name }

// runOf converts a request for a run in a fresh sandbox.
func runOf(r *api.RunRequest) (run engine.OneShot, err error) {
	run.Backend = r.Backend
	if run.Spec, err = specOf(&r.Isolation); err == nil {
		run.Request, err = requestOf(&r.Program)
	}
	run.Request.Packages.Lock = r.Lock
	return run, err
}

// run is POST /v1/run.
func (a *apiV1) run(w *httpd.Response, r *http.Request) error {
	var req api.RunRequest
	release, err := a.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	run, err := runOf(&req)
	if err != nil {
		return err
	}
	w.Rules(&run.Spec.Network)
	if run.Request.Code != nil && run.Request.Language == "" {
		run.Request.Language = a.defaultLanguage()
	}
	include := req.Include // a closure would hold all of req
	if len(req.Tools) > 0 && !wantsEvents(r) {
		return sandbox.Invalidf("tools", "requires Accept: text/event-stream")
	}
	if wantsEvents(r) {
		return a.stream(w, r, run, include, release)
	}
	text, err := a.CarryOut(r.Context(), w, run, answerWith(include))
	if err != nil {
		return err
	}
	release()
	return a.WriteJSON(w, text)
}

// answerWith returns a function that lays out answers with sections even if they are empty.
func answerWith(include []api.Section) httpd.LayOut {
	return func(r *sandbox.Result) (*largejson.JSON, int64) {
		return answer.JSONOf(answer.New(wording.HTTP, r, include...)), 0
	}
}

// stream runs and sends events as they happen. It cancels the run of a client that disconnects or takes nothing.
// release frees the room of the body.
func (a *apiV1) stream(w *httpd.Response, r *http.Request, run engine.OneShot, include []api.Section,
	release func()) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	run.ID = sandbox.NewID()
	events := newStream(w, run.ID, func(err error) {
		a.LostClient()
		cancel(err)
	})
	defer events.close()
	run.Request.Output, run.Request.Progress = events.output, events.progress
	run.Request.Calls.Call, run.Request.Calls.Answered = events.call, events.answered
	text, err := a.CarryOut(ctx, w, run, func(r *sandbox.Result) (*largejson.JSON, int64) {
		o := answer.NewOutcome(wording.HTTP, r, include...)
		return answer.JSONOf(&o), events.holdRest(r)
	})
	if err != nil {
		if events.problem(a.Problem(w, err)) {
			return nil
		}
		return err
	}
	release()
	events.done(text)
	return nil
}

// wantsEvents reports whether the client accepts server-sent events.
func wantsEvents(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if err == nil && kind == api.MediaEvents && params["q"] != "0" {
				return true
			}
		}
	}
	return false
}
