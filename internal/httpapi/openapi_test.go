package httpapi_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/internal/httpapi"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// The document is OpenAPI 3.1, and what the server takes and answers is what the document says.
func TestOpenAPI(t *testing.T) {
	r := newRig(t, engine.Config{Max: sandbox.Limits{MemoryBytes: 1 << 30}}, httpapi.Config{})
	_, text := r.do("GET", "/openapi.json", "", nil)
	document, err := libopenapi.NewDocument([]byte(text))
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
		{"POST", "/v1/run", bash("echo 1; exit 3")},
		{"POST", "/v1/run", python("import os; open('a','w').write('x'); os.write(1,b'\\xff'); raise ValueError('x')")},
		{"POST", "/v1/run", jsonOf(object{"language": "bash", "code": ": > a; mkfifo b", "return_files": []string{"**"}, "packages": "none",
			"checks": "off", "network": object{"mode": "none"}, "limits": object{"timeout_s": 5, "pids": nil, "inodes": 1000, "open_files": 64}, "stdin": nil, "env": object{"A": "b"},
			"files": []object{{"path": "f", "content": "x"}, {"path": "g", "content_base64": "eA=="}}, "accept_weaker": []string{"memory"}})},
		{"POST", "/v1/run", jsonOf(object{"command": []string{"true"}, "packages": []string{}})},
		{"POST", "/execute", `{"code":"open('a','w').write('x')"}`},
		{"POST", "/execute", `{"code":"1/0","language":"python"}`},
		{"GET", "/v1/capabilities", ""},
		{"GET", "/v1/languages", ""},
		{"GET", "/healthz", ""},
		{"GET", "/readyz", ""},
	} {
		req, res := r.pair(c.method, c.path, c.body)
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s", c.method, c.body, res.Status)
		}
		if ok, errs := v.ValidateHttpRequestResponse(req, res); !ok {
			for _, e := range errs {
				t.Errorf("%s %s: %s: %s %+v", c.method, c.path, e.Message, e.Reason, e.SchemaValidationErrors)
			}
		}
	}
	// What the decoder refuses, the document refuses too; and the problem is as described.
	for _, body := range []string{
		`{"langauge":"python"}`, `{"code":1}`, `{"limits":{"timeout_s":"5"}}`, `{"files":[{"content":"x"}]}`, `{"network":"host"}`,
		`{"args":[null]}`, `{"limits":{"memory_mb":5}}`, `{"env":[]}`,
	} {
		req, res := r.pair("POST", "/v1/run", body)
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
	for _, example := range []string{"required", "timeout_s", "text/event-stream", "application/problem+json", "print(6*7)"} {
		if !strings.Contains(text, example) {
			t.Errorf("the document lacks %s", example)
		}
	}
}

// pair sends a request and returns it, and its response, both with bodies that can be read.
func (r *rig) pair(method, path, body string) (*http.Request, *http.Response) {
	r.t.Helper()
	res, text := r.do(method, path, body, nil)
	res.Body = io.NopCloser(bytes.NewReader([]byte(text)))
	req, err := http.NewRequest(method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, res
}
