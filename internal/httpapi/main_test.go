package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpapi"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

// rig is a real server on a real engine over the fake backend.
type rig struct {
	t      testing.TB
	server *httpd.Server
	engine *engine.Engine
	addr   string
	log    *lockedBuffer
}

// lockedBuffer takes the log of several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newRig(t testing.TB, e engine.Config, h httpd.Config) *rig {
	t.Helper()
	return newStoringRig(t, e, h, httpapi.Stores{})
}

// newStoringRig returns a rig whose server keeps images, templates or packages.
func newStoringRig(t testing.TB, e engine.Config, h httpd.Config, stores httpapi.Stores) *rig {
	t.Helper()
	r := &rig{t: t, log: &lockedBuffer{}}
	if e.Backends == nil {
		e.Backends = []sandbox.Backend{backendtest.NewFake(t)}
	}
	e.Languages = lang.All()[:3] // those that every host of the tests has
	h.Metrics = httpd.NewMetrics("test")
	e.Observer = h.Metrics
	var err error
	if r.engine, err = engine.New(e); err != nil {
		t.Fatal(err)
	}
	h.Engine, h.Version = r.engine, "test"
	h.Log = slog.New(slog.NewJSONHandler(r.log, nil))
	if r.server, err = httpd.New(h); err != nil {
		t.Fatal(err)
	}
	httpapi.Add(r.server, stores)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = listener.Addr().String()
	server := r.server.HTTPServer()
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(httpd.Listen(listener))
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
		r.engine.Close()
	})
	return r
}

// stepTimeout bounds a step that hangs. Nothing is measured against it.
const stepTimeout = 2 * time.Minute

// eventually waits for a condition that another goroutine fulfills.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// gate is a backend whose programs wait until the test lets them go on.
type gate struct {
	*backendtest.Fake
	dir string // holds a file for each thing that has come about
}

func newGate(t testing.TB) *gate { return &gate{backendtest.NewFake(t), t.TempDir()} }

func (g *gate) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: g.dir, Target: "/gate"})
	return g.Fake.Create(ctx, spec)
}

// program is a request of bash code in which await is a command: it waits for a thing to come about.
func (g *gate) program(code string) string {
	await := `await() { until [ -e "/gate/$1" ]; do sleep 0.01; done; }; `
	return jsonOf(object{"language": "bash", "code": await + code,
		"limits": object{"timeout_s": 2 * stepTimeout.Seconds()}})
}

func (g *gate) open(t testing.TB, thing string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, thing), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

type header map[string]string

// ask sends one request. The answer's body is the caller's to close.
func (r *rig) ask(method, path, body string, h header) (*http.Response, error) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range h {
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	return http.DefaultClient.Do(req)
}

// do sends one request and returns the answer and its body.
func (r *rig) do(method, path, body string, h header) (*http.Response, string) {
	r.t.Helper()
	res, err := r.ask(method, path, body, h)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res, string(text)
}

// run posts to /v1/run and demands an answer.
func (r *rig) run(body string) api.Answer {
	r.t.Helper()
	res, text := r.do("POST", "/v1/run", body, nil)
	if res.StatusCode != http.StatusOK {
		r.t.Fatalf("POST /v1/run %s: %s: %s", short(body), res.Status, text)
	}
	return parse[api.Answer](r.t, text)
}

// refused demands a problem with the status.
func (r *rig) refused(method, path, body string, h header, status int) api.Problem {
	r.t.Helper()
	res, text := r.do(method, path, body, h)
	if res.StatusCode != status {
		r.t.Fatalf("%s %s %s: got %s, want %d: %s", method, path, short(body), res.Status, status, text)
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		r.t.Fatalf("%s %s: a problem of type %q", method, path, got)
	}
	p := parse[api.Problem](r.t, text)
	if p.Status != status || p.Title == "" || p.Detail == "" || p.Type == "" ||
		p.RequestID != res.Header.Get("X-Request-Id") {
		r.t.Fatalf("an incomplete problem: %s", text)
	}
	return p
}

func parse[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not the JSON that it should be: %v: %s", err, short(text))
	}
	return v
}

func short(s string) string {
	if len(s) > 300 {
		return s[:300] + "..."
	}
	return s
}

// jsonOf is a request as JSON.
func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

type object = map[string]any

func python(code string) string { return jsonOf(object{"language": "python", "code": code}) }
func bash(code string) string   { return jsonOf(object{"language": "bash", "code": code}) }
