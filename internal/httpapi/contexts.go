package httpapi

import (
	"net/http"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

func showContext(c engine.ContextInfo) api.Context {
	return api.Context{ID: c.ID, Name: c.Name, Language: c.Language, Dir: c.Dir, State: c.State, Waiting: c.Waiting,
		Runs: c.Runs, CreatedAt: c.Created.UTC()}
}

func contextsOf(contexts []engine.ContextInfo) []api.Context {
	out := make([]api.Context, len(contexts))
	for i, c := range contexts {
		out[i] = showContext(c)
	}
	return out
}

func (a *apiV1) listContexts(w *httpd.Response, _ *http.Request, s *engine.Sandbox) error {
	return a.WriteJSON(w, api.ContextList{Contexts: contextsOf(s.Info().Contexts)})
}

func (a *apiV1) createContext(w *httpd.Response, r *http.Request, s *engine.Sandbox, req *api.ContextRequest) error {
	env, err := envOf(req.Env)
	if err != nil {
		return err
	}
	c, err := s.CreateContext(r.Context(), engine.ContextRequest{Name: req.Name, Language: req.Language, Dir: req.Dir,
		Env: env, Calls: callsOf(req.Tools, req.CallLimits)})
	if err != nil {
		return err
	}
	return a.WriteStatus(w, http.StatusCreated, showContext(c.Info()))
}

// inContext finds the context of a request.
func inContext(h func(*httpd.Response, *http.Request, *engine.Context) error) living {
	return func(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
		c, err := s.Context(r.PathValue("context"))
		if err != nil {
			return err
		}
		return h(w, r, c)
	}
}

func (a *apiV1) restartContext(w *httpd.Response, r *http.Request, c *engine.Context) error {
	return done(w, c.Restart(r.Context()))
}

func (a *apiV1) interruptContext(w *httpd.Response, r *http.Request, c *engine.Context) error {
	return done(w, c.Interrupt(r.Context()))
}

func (a *apiV1) deleteContext(w *httpd.Response, r *http.Request, c *engine.Context) error {
	return done(w, c.Delete(r.Context()))
}

func (a *apiV1) complete(w *httpd.Response, r *http.Request, c *engine.Context, req *api.CompleteRequest) error {
	cursor := len(req.Code)
	if at := req.Cursor; at != nil {
		cursor = *at
	}
	start, names, err := c.Complete(r.Context(), req.Code, cursor)
	if err != nil {
		return err
	}
	return a.WriteJSON(w, api.Completion{Start: start, Names: answer.List(names)})
}
