package httpapi

import (
	"net/http"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ContextRequest is the body of POST /v1/sandboxes/{id}/contexts.
type ContextRequest struct {
	Name     string `json:"name" required:"true" doc:"Unique in the sandbox; of the form of a sandbox's name." example:"plots"`
	Language string `json:"language" doc:"Name or alias of a language; python if absent." example:"python"`
	Dir      string `json:"dir" doc:"Working directory, absolute or relative to /workspace, which it is if absent."`
}

// ContextShown is a context: an interpreter that keeps its variables between runs.
type ContextShown struct {
	ID        *string `json:"id" doc:"Of the interpreter: another one after a restart, and the older ones go on to name the context; null before the first run."`
	Name      string  `json:"name"`
	Language  string  `json:"language"`
	Dir       string  `json:"dir" doc:"Its first working directory."`
	State     string  `json:"state" doc:"new: no interpreter yet; ended: the next run starts a new one." enum:"new,idle,busy,ended"`
	Waiting   int     `json:"waiting" doc:"Runs that wait for their turn."`
	Runs      int64   `json:"runs" doc:"Runs so far."`
	CreatedAt string  `json:"created_at" doc:"RFC 3339."`
}

// ContextList is the answer to GET /v1/sandboxes/{id}/contexts.
type ContextList struct {
	Contexts []ContextShown `json:"contexts"`
}

// CompleteRequest is the body of POST /v1/sandboxes/{id}/contexts/{context}/complete.
type CompleteRequest struct {
	Code   string   `json:"code" required:"true" doc:"Source text." example:"import ma"`
	Cursor *float64 `json:"cursor" doc:"Offset in bytes of the code's UTF-8; its end if absent." whole:"true" example:"9"`
}

// Completion is what fits at a cursor.
type Completion struct {
	Start int      `json:"start" doc:"Offset in bytes; each name replaces the code from here to the cursor."`
	Names []string `json:"names"`
}

func showContext(c engine.ContextInfo) ContextShown {
	return ContextShown{ID: orNull(string(c.ID)), Name: c.Name, Language: c.Language, Dir: c.Dir, State: c.State, Waiting: c.Waiting,
		Runs: int64(c.Runs), CreatedAt: when(c.Created)}
}

func (a *apiV1) listContexts(w *httpd.Response, _ *http.Request, s *engine.Sandbox) error {
	contexts := s.Info().Contexts
	out := ContextList{Contexts: make([]ContextShown, len(contexts))}
	for i, c := range contexts {
		out.Contexts[i] = showContext(c)
	}
	return a.WriteJSON(w, out)
}

func (a *apiV1) createContext(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req ContextRequest
	release, err := a.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	c, err := s.CreateContext(r.Context(), req.Name, req.Language, req.Dir)
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

func (a *apiV1) complete(w *httpd.Response, r *http.Request, c *engine.Context) error {
	var req CompleteRequest
	release, err := a.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	cursor := len(req.Code)
	if at := req.Cursor; at != nil {
		if *at != float64(int32(*at)) {
			return sandbox.Invalidf("cursor", "must be a whole number")
		}
		cursor = int(*at)
	}
	start, names, err := c.Complete(r.Context(), req.Code, cursor)
	if err != nil {
		return err
	}
	return a.WriteJSON(w, Completion{start, answer.List(names)})
}
