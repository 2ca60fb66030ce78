// Package openapitest checks the HTTP API against its own description. It is apart from the other tests of the API
// because the validator takes a minute to compile with the race detector.
package openapitest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpapi"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

// newServer returns a function that sends a request to a server with the fake backend. It returns both with bodies that
// can be read.
func newServer(t *testing.T) func(method, path, body string) (*http.Request, *http.Response) {
	t.Helper()
	e, err := engine.New(engine.Config{Backends: []sandbox.Backend{backendtest.NewFake(t)}, Languages: lang.All(),
		Max: sandbox.Limits{MemoryBytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	server, err := httpd.New(httpd.Config{Engine: e, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	httpapi.Add(server, httpapi.Stores{})
	return func(method, path, body string) (*http.Request, *http.Response) {
		request := func() *http.Request {
			req := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
			if body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			return req
		}
		w := httptest.NewRecorder()
		server.Handler().ServeHTTP(w, request())
		return request(), w.Result()
	}
}

// The document is OpenAPI 3.1, and the requests and answers of the server conform to it.
func TestOpenAPI(t *testing.T) {
	ask := newServer(t)
	_, res := ask("GET", "/openapi.json", "")
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	document, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, errs := v.ValidateDocument(); !ok {
		for _, e := range errs {
			t.Errorf("%s: %s: %+v", e.Message, e.Reason, e.SchemaValidationErrors)
		}
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/run", `{"language":"bash","code":"echo 1; exit 3"}`},
		{"POST", "/v1/run", `{"language":"python","code":"import os; open('a','w').write('x'); os.write(1,b'\\xff'); raise ValueError('x')"}`},
		{"POST", "/v1/run", `{"language":"bash","code":": > a; mkfifo b","return_files":["**"],"include":["output","skipped_files","policy"],"network":{"mode":"none"},
			"limits":{"timeout_s":100,"pids":null,"inodes":1000,"open_files":64},"stdin":null,"env":{"A":"b"},
			"files":[{"path":"f","content":"x"},{"path":"g","mode":"0755","content_base64":"eA=="}],"allow_unenforced":["memory"]}`},
		{"POST", "/v1/run", `{"command":["true"],"include":[]}`},
		{"POST", "/execute", `{"code":"open('a','w').write('x')"}`},
		{"POST", "/execute", `{"code":"1/0","language":"python"}`},
		{"GET", "/v1/capabilities", ""},
		{"GET", "/v1/languages", ""},
		{"GET", "/healthz", ""},
		{"GET", "/readyz", ""},
	} {
		req, res := ask(c.method, c.path, c.body)
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s", c.method, c.body, res.Status)
		}
		if ok, errs := v.ValidateHttpRequestResponse(req, res); !ok {
			for _, e := range errs {
				t.Errorf("%s %s: %s: %s %+v", c.method, c.path, e.Message, e.Reason, e.SchemaValidationErrors)
			}
		}
	}
	living(t, ask, v)
	// The document refuses each request that the decoder refuses, and describes its problem.
	for _, body := range []string{
		`{"langauge":"python"}`, `{"code":1}`, `{"limits":{"timeout_s":"5"}}`, `{"files":[{"content":"x"}]}`, `{"network":"host"}`,
		`{"args":[null]}`, `{"limits":{"memory_mb":5}}`, `{"env":[]}`, `{"code":"1","language":"bash","network":{"mode":"none","packages":[]}}`, `{}`, `{"code":" ","language":"bash"}`, `{"language":"bash","code":"1","command":["true"]}`,
		`{"code":null,"language":"bash"}`, `{"code":"1","language":"bash","limits":{"pids":1.5}}`, `{"code":"1","language":"bash","limits":{"cpus":0}}`, `{"code":"1","language":"bash","files":[{"path":"a","content":"","mode":493}]}`,
		`{"code":"1","language":"bash","files":[{"path":"a","content":"","content_base64":""}]}`, `{"code":"1","language":"bash","files":[{"path":"a","content":null}]}`,
	} {
		req, res := ask("POST", "/v1/run", body)
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", body, res.Status)
		}
		if ok, errs := v.ValidateHttpResponse(req, res); !ok {
			t.Errorf("%s: %v", body, errs[0])
		}
		if ok, _ := v.ValidateHttpRequest(req); ok {
			t.Errorf("the document allows %s", body)
		}
	}
	for _, example := range []string{"required", "timeout_s", "text/event-stream", "application/problem+json",
		"print(6*7)"} {
		if !bytes.Contains(text, []byte(example)) {
			t.Errorf("the document lacks %s", example)
		}
	}
}

// living asks for all that a living sandbox answers, and validates each request and answer.
func living(t *testing.T, ask func(method, path, body string) (*http.Request, *http.Response), v validator.Validator) {
	t.Helper()
	const s = "/v1/sandboxes/a"
	id := ""
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/sandboxes", `{"name":"a","lifetime":{"idle_s":60},"metadata":{"k":"v"},"limits":{"timeout_s":10},"include":["policy"]}`, 201},
		{"POST", "/v1/sandboxes", `{"name":"a"}`, 200},
		{"POST", s + "/contexts", `{"name":"c"}`, 201},
		{"POST", s + "/run", `{"code":"print(1)\n2","context":"c"}`, 200},
		{"POST", s + "/run", `{"command":["cat"],"interactive":true,"background":true}`, 202},
		{"GET", "/v1/sandboxes?metadata=k:v&limit=5", "", 200},
		{"GET", s + "?include=policy", "", 200},
		{"GET", s + "/runs", "", 200},
		{"GET", s + "/runs/RUN", "", 200},
		{"POST", s + "/runs/RUN/signal", `{"signal":2}`, 204},
		{"GET", s + "/runs/RUN/events?after=0", "", 200},
		{"DELETE", s + "/runs/RUN", "", 204},
		{"GET", s + "/contexts", "", 200},
		{"POST", s + "/contexts/c/complete", `{"code":"pri","cursor":3}`, 200},
		{"POST", s + "/contexts/c/interrupt", "", 204},
		{"POST", s + "/contexts/c/restart", "", 204},
		{"DELETE", s + "/contexts/c", "", 204},
		{"POST", s + "/mkdir", `{"path":"d"}`, 204},
		{"GET", s + "/files?list=1&depth=2", "", 200},
		{"GET", s + "/files/d?stat=1", "", 200},
		{"POST", s + "/move", `{"from":"d","to":"e","replace":false}`, 204},
		{"DELETE", s + "/files/e", "", 204},
		{"GET", s + "/files/e", "", 404},
		{"GET", s + "/stats", "", 200},
		{"PATCH", s, `{"metadata":{}}`, 200},
		{"POST", s + "/clean", "", 204},
		{"DELETE", s, "", 204},
		{"GET", s, "", 404},
	} {
		req, res := ask(c.method, strings.ReplaceAll(c.path, "RUN", id), c.body)
		if run := res.Header.Get("Fumehood-Run-Id"); run != "" {
			id = run
		}
		if res.StatusCode != c.status {
			text, _ := io.ReadAll(res.Body)
			t.Fatalf("%s %s %s: %s: %s", c.method, c.path, c.body, res.Status, text)
		}
		if ok, errs := v.ValidateHttpRequestResponse(req, res); !ok {
			for _, e := range errs {
				t.Errorf("%s %s: %s: %s %+v", c.method, c.path, e.Message, e.Reason, e.SchemaValidationErrors)
			}
		}
	}
}
