package httpd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/test/backendtest"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

// newServer returns a server without routes, whose backend only seems to make sandboxes.
func newServer(t *testing.T, config Config) *Server {
	t.Helper()
	e, err := engine.New(engine.Config{Backends: []sandbox.Backend{backendtest.NewFake(t)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	config.Engine = e
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTail: the tail of a path is passed on as it came and changes no route. A path whose fixed part is escaped has no
// route, since the router would accept it without its tail.
func TestTail(t *testing.T) {
	s := newServer(t, Config{})
	answer := func(name string) func(*Response, *http.Request) error {
		return func(w *Response, r *http.Request) error {
			_, err := fmt.Fprint(w, name, " ", r.PathValue("id"), " ", r.PathValue("port"), " ", Tail(r))
			return err
		}
	}
	s.Handle(Route{Path: "/v1/boxes/{id}/ports/{port}/{path...}", Handler: answer("port"), Tail: true},
		Route{Method: "GET", Path: "/v1/boxes/{id}", Handler: answer("box")},
		Route{Method: "GET", Path: "/v1/boxes/{id}/files/{path...}", Handler: answer("file")})
	for path, want := range map[string]string{
		"/v1/boxes/a/ports/80/":                  "port a 80 /",
		"/v1/boxes/a/ports/80//x/../..%2f%2e/":   "port a 80 //x/../..%2f%2e/",
		"/v1/boxes/a/ports/80/../../../../v1":    "port a 80 /../../../../v1",
		"/v1/boxes/a/ports/80/%76":               "port a 80 /%76",
		"/v1/boxes/a/ports/80/-":                 "port a 80 /-",
		"/v1/boxes/%61/ports/%380/x":             "port a 80 /x",
		"/v1/boxes/a/ports//x":                   "",
		"/v1/boxes//ports/80/x":                  "",
		"/v1/boxe%73/a/ports/80/x":               "",
		"/v1/boxes/a/port%73/80/x":               "",
		"/%76%31/boxes/a/ports/80/x":             "",
		"/v1/boxes/a%2Fports%2F80%2Fx":           "box a/ports/80/x  ",
		"/v1/boxes/a%2Fb/ports/80/x":             "port a/b 80 /x",
		"/v1/boxe%73/a%2Fb/ports/80/x":           "",
		"/v1/boxes/a/ports/80%2Fx/y":             "port a 80/x /y",
		"/v1/boxes/a/../b/ports/80/x":            "",
		"/v1/boxes/a/./ports/80/x":               "",
		"/v1/boxes/a/files/../ports/80/x":        "",
		"/v1/boxes/a/files/x":                    "file a  ",
		"/v1/boxes/a/files/%2e%2e/ports/80/x":    "",
		"/v1/boxes/a%2F..%2F..%2Fb/ports/80/%ff": "",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://localhost"+path, nil)
		s.Handler().ServeHTTP(w, r)
		if got := w.Body.String(); want != "" && (w.Code != http.StatusOK || got != want) ||
			want == "" && w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %q, want %q", path, w.Code, got, want)
		}
	}
}
