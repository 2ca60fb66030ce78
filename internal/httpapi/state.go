package httpapi

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// defaultOf finds the context of a request. That named default is the one of a language, which need not exist yet.
func defaultOf(h func(*httpd.Response, *http.Request, *engine.Context) error) living {
	return func(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
		if r.PathValue("context") != sandbox.DefaultContext {
			return inContext(h)(w, r, s)
		}
		c, err := s.DefaultContext(cmp.Or(r.URL.Query().Get("language"), "python"))
		if err != nil {
			return err
		}
		return h(w, r, c)
	}
}

// checkWork is how often the bytes of a document count as work, besides those of the request: they are passed to the
// driver, or received from it, and checked.
const checkWork = 2

// exportState is GET /v1/sandboxes/{id}/contexts/{context}/state.
func (a *apiV1) exportState(w *httpd.Response, r *http.Request, c *engine.Context) error {
	if err := a.Reserve(r.Context(), w, engine.MaxState); err != nil { // before the sandbox sends it
		return err
	}
	document, err := c.Export(r.Context(), r.URL.Query()["name"])
	if err != nil {
		return err
	}
	w.Work(checkWork * len(document))
	return writeDocument(w, document)
}

// importState is PUT /v1/sandboxes/{id}/contexts/{context}/state.
func (a *apiV1) importState(w *httpd.Response, r *http.Request, c *engine.Context) error {
	b, err := a.ReadBytes(w, r)
	defer b.Release()
	if err != nil {
		return err
	}
	w.Work(checkWork * len(b.Data))
	report, err := c.Import(r.Context(), b.Data)
	if err == nil { // the code can make it large
		err = a.TryReserve(w, int64(len(report))-httpd.FreeAnswer)
	}
	if err != nil {
		return err
	}
	return writeDocument(w, report)
}

// writeDocument writes JSON of the sandbox as it is.
func writeDocument(w *httpd.Response, document []byte) error {
	w.Header().Set("Content-Type", api.MediaJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document) // an error is of the client's connection
	return nil
}
