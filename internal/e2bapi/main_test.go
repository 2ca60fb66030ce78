package e2bapi_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/e2bapi"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

// rig is a server of E2B's wire over the fake backend, and a sandbox.
type rig struct {
	t      testing.TB
	server *httpd.Server
	engine *engine.Engine
	url    string
	client *http.Client
	log    bytes.Buffer // to be read once the server is idle
	secret string       // of the API key; "" is none

	id, token string // of the sandbox
}

func newRig(t testing.TB, config httpd.Config) *rig {
	t.Helper()
	return startRig(t, config, (*httptest.Server).Start)
}

// newTLSRig is newRig with a client that speaks HTTP/2.
func newTLSRig(t testing.TB, config httpd.Config) *rig {
	t.Helper()
	return startRig(t, config, startTLS)
}

func startTLS(at *httptest.Server) {
	at.EnableHTTP2 = true
	at.StartTLS()
}

func startRig(t testing.TB, config httpd.Config, start func(*httptest.Server)) *rig {
	t.Helper()
	r := &rig{t: t}
	r.start(config, start)
	return r
}

func (r *rig) start(config httpd.Config, start func(*httptest.Server)) {
	t := r.t
	t.Helper()
	var err error
	r.engine, err = engine.New(engine.Config{Backends: []sandbox.Backend{backendtest.NewFake(t)},
		Languages: lang.All()[:3], Max: sandbox.Limits{Timeout: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	config.Engine, config.Log = r.engine, slog.New(slog.NewTextHandler(&r.log, nil))
	if r.server, err = httpd.New(config); err != nil {
		t.Fatal(err)
	}
	closeAll := e2bapi.Add(r.server, e2bapi.NewTokens())
	at := httptest.NewUnstartedServer(nil)
	at.Config = r.server.HTTPServer()
	start(at)
	r.url, r.client = at.URL, at.Client()
	t.Cleanup(func() {
		at.Close()
		closeAll()
		r.engine.Close()
	})
	r.id, r.token = r.create()
}

// create makes a sandbox without a network.
func (r *rig) create() (id, token string) {
	r.t.Helper()
	status, text := r.do("POST", "/sandboxes", "application/json", []byte(`{"allow_internet_access":false}`),
		r.key())
	var made struct{ SandboxID, EnvdAccessToken string }
	if err := json.Unmarshal(text, &made); err != nil || status != http.StatusCreated {
		r.t.Fatalf("%d: %s", status, text)
	}
	return made.SandboxID, made.EnvdAccessToken
}

// key is the header of requests with the API key.
func (r *rig) key() http.Header {
	if r.secret == "" {
		return nil
	}
	return http.Header{"X-Api-Key": {r.secret}}
}

// do sends a request; with a port, to that service of the sandbox.
func (r *rig) do(method, path, kind string, body []byte, header http.Header) (int, []byte) {
	r.t.Helper()
	res := r.ask(method, path, kind, body, header)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, text
}

// ask is do without reading the answer.
func (r *rig) ask(method, path, kind string, body []byte, header http.Header) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", kind)
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// to is the header of requests to a service of the sandbox.
func (r *rig) to(port string) http.Header {
	return http.Header{"E2b-Sandbox-Id": {r.id}, "E2b-Sandbox-Port": {port}, "X-Access-Token": {r.token}}
}

const envd, code49999 = "49983", "49999" // the ports of services

// call calls a method of envd, and returns the message or the error.
func (r *rig) call(method, message string) (int, []byte) {
	r.t.Helper()
	return r.do("POST", method, "application/json", []byte(message), r.to(envd))
}

// framed is a message of a stream of connect.
func framed(message string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}
