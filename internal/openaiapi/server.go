// Package openaiapi serves the containers of OpenAI's API (https://platform.openai.com/docs/api-reference/containers)
// below /openai/v1: containers, their files, and two calls that OpenAI makes for its models itself: the code
// interpreter and the shell. A container is a sandbox.
package openaiapi

import (
	"net/http"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// face serves OpenAI's wire on one server.
type face struct{ *httpd.Server }

// root is the path that clients take for that of OpenAI's API, as base_url.
const root = "/openai/v1"

// Add adds OpenAI's wire to a server, which must not be serving yet.
func Add(server *httpd.Server) {
	f := &face{server}
	for pattern, h := range map[string]func(*httpd.Response, *http.Request) error{
		"POST /containers":                             f.createContainer,
		"GET /containers":                              f.listContainers,
		"GET /containers/{id}":                         f.inside(f.getContainer),
		"DELETE /containers/{id}":                      f.inside(f.deleteContainer),
		"POST /containers/{id}/files":                  f.inside(f.createFile),
		"GET /containers/{id}/files":                   f.inside(f.listFiles),
		"GET /containers/{id}/files/{file}":            f.inside(f.getFile),
		"DELETE /containers/{id}/files/{file}":         f.inside(f.deleteFile),
		"GET /containers/{id}/files/{file}/content":    f.inside(f.readFile),
		"POST /containers/{id}/code_interpreter_calls": f.inside(f.interpret),
		"POST /containers/{id}/shell_calls":            f.inside(f.shell),
		" /{path...}":                                  notServed,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		server.Handle(httpd.Route{Method: method, Path: root + path, Handler: h, Fail: f.fail})
	}
}

// notServed answers requests for the rest of OpenAI's API.
func notServed(*httpd.Response, *http.Request) error {
	return &sandbox.Error{Kind: sandbox.NotFound, Msg: "this server has only /containers of OpenAI's API",
		Fix: "docs/openai.md lists what is served"}
}

// fault is an error in OpenAI's form.
type fault struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// fail answers with an error in OpenAI's form.
func (f *face) fail(w *httpd.Response, err error) {
	p := f.Problem(w, err)
	out := fault{Message: p.Detail, Type: "invalid_request_error"}
	if p.Hint != "" {
		out.Message += " (" + p.Hint + ")"
	}
	code := ""
	switch {
	case p.Status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case p.Status == http.StatusNotFound:
		code = "not_found"
	case p.Status == http.StatusTooManyRequests:
		out.Type, code = "rate_limit_error", "rate_limit_exceeded"
	case p.Status >= 500:
		out.Type = "server_error"
	}
	if code != "" {
		out.Code = &code
	}
	httpd.SetRetryAfter(w.Header(), p)
	_ = f.WriteStatus(w, p.Status, map[string]any{"error": out})
}

// inside handles a request to a container.
type inside = func(*httpd.Response, *http.Request, *engine.Sandbox) error

// idPrefix begins the ids of containers.
const idPrefix = "cntr_"

// inside finds the container of a request. It has no other sandboxes: those of other faces have other settings.
func (f *face) inside(h inside) func(*httpd.Response, *http.Request) error {
	return func(w *httpd.Response, r *http.Request) error {
		id, err := sandbox.ParseID(strings.TrimPrefix(r.PathValue("id"), idPrefix))
		if err != nil {
			return &sandbox.Error{Kind: sandbox.NotFound, Msg: "no such container"}
		}
		w.Sandbox = string(id)
		s, err := f.Engine().Sandbox(r.Context(), w.Key, string(id))
		if err == nil {
			err = s.Ended() // it may be ending
		}
		if err != nil {
			return err
		}
		if _, ok := s.Info().Spec.Metadata[nameKey]; !ok {
			return &sandbox.Error{Kind: sandbox.NotFound, Msg: "no such container"}
		}
		return h(w, r, s)
	}
}
