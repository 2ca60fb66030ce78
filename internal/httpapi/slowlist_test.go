package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// pausing calls read before the first part of an answer is taken.
type pausing struct {
	*httptest.ResponseRecorder
	read func()
}

func (p *pausing) Write(data []byte) (int, error) {
	if read := p.read; read != nil {
		p.read = nil
		read()
	}
	return p.ResponseRecorder.Write(data)
}

// TestSlowList: the list of a client that reads slowly keeps no sandbox in memory that has ended meanwhile.
func TestSlowList(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	metadata := map[string]string{}
	for i := range 60 {
		metadata[strings.Repeat("k", i+1)] = strings.Repeat("v", 1024)
	}
	for range 6 {
		r.ok(http.StatusCreated, "POST", "/v1/sandboxes", jsonOf(object{"metadata": metadata}))
	}
	ids, _, err := r.engine.Sandboxes("", nil, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	w := &pausing{httptest.NewRecorder(), func() {
		var last weak.Pointer[engine.Sandbox]
		for _, id := range ids {
			last = end(t, r.engine, id)
		}
		eventually(t, "the end of what has ended", func() bool {
			runtime.GC()
			return last.Value() == nil
		})
	}}
	request := httptest.NewRequest("GET", "/v1/sandboxes", nil)
	request.Host = "localhost"
	r.server.Handler().ServeHTTP(w, request)
	if n := strings.Count(w.Body.String(), `"state"`); w.Code != http.StatusOK || n == 0 || n == len(ids) {
		t.Errorf("%d: %d sandboxes of %d", w.Code, n, len(ids))
	}
}

// end ends a sandbox, and returns what remains of it.
func end(t *testing.T, e *engine.Engine, id sandbox.ID) weak.Pointer[engine.Sandbox] {
	s := e.Living(id)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return weak.Make(s)
}
