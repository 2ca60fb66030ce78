package e2bapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

const (
	stream = "application/connect+json"
	start  = "/process.Process/Start"
)

// TestBadInput: each service answers in its protocol's words.
func TestBadInput(t *testing.T) {
	r := newRig(t, httpd.Config{MaxBody: 64 << 10})
	at := func(port string, change func(http.Header)) http.Header {
		h := r.to(port)
		change(h)
		return h
	}
	unknown := func(h http.Header) { h.Set("E2b-Sandbox-Id", strings.Repeat("a", len(r.id))) }
	wrong := func(h http.Header) { h.Set("X-Access-Token", "wrong") }
	version := func(h http.Header) { h.Set("Connect-Protocol-Version", "2") }
	none := func(http.Header) {}
	good, long := `{"process":{"cmd":"/bin/true"}}`, strings.Repeat("x", 2<<20)
	for name, c := range map[string]struct {
		method, path, kind string
		body               []byte
		header             http.Header
		status             int
		has                string
	}{
		"unknown sandbox, API": {"GET", "/sandboxes/none", "", nil, nil, 404, `"code":404,"message":"`},
		"body over the limit, API": {"POST", "/sandboxes", "application/json",
			[]byte(`{"templateID":"` + long + `"}`), nil,
			413, `"code":413,"message":"`},
		"no JSON, API": {"POST", "/sandboxes", "application/json", []byte("{"), nil, 400,
			`"code":400,"message":"`},
		"unknown sandbox, envd": {"POST", start, stream, framed(good), at(envd, unknown), 401,
			`"code":401,"message":"`},
		"wrong token, envd": {"POST", start, stream, framed(good), at(envd, wrong), 401,
			`"code":401,"message":"`},
		"wrong token, code": {"POST", "/execute", "application/json", []byte(`{"code":"1"}`),
			at(code49999, wrong), 401, `"message":"`},
		"message over the limit": {"POST", start, stream, framed(`{"process":{"cmd":"` + long + `"}}`),
			r.to(envd), 413, `"message":"`},
		"unary over the limit": {"POST", "/process.Process/List", "application/json",
			[]byte(`{"x":"` + long + `"}`), r.to(envd), 413, `"message":"`},
		"another version": {"POST", start, stream, framed(good), at(envd, version), 200,
			`"code":"invalid_argument"`},
		"another version, unary": {"POST", "/process.Process/List", "application/json", []byte("{}"),
			at(envd, version), 400, `"code":"invalid_argument"`},
		"half of a frame's head": {"POST", start, stream, framed(good)[:3], at(envd, none), 200,
			`"message":"protocol error: `},
		"half of a message": {"POST", start, stream, framed(good)[:20], at(envd, none), 200,
			`"message":"protocol error: `},
		"a length without an end": {"POST", start, stream, []byte("\x00\xff\xff\xff\xff{}"), at(envd, none),
			200, `"code":"resource_exhausted"`},
		"no JSON, envd": {"POST", start, stream, framed("{"), at(envd, none), 200,
			`"code":"invalid_argument"`},
		"unknown method": {"POST", "/process.Process/None", "application/json", []byte("{}"),
			at(envd, none), 404, ""},
		"half of a form": {"POST", "/files?path=a", "multipart/form-data; boundary=b",
			[]byte("--b\r\nContent-Dis"), at(envd, none), 400,
			`"code":400,"message":"`},
		"unknown context": {"POST", "/execute", "application/json",
			[]byte(`{"code":"1","context_id":"none"}`), at(code49999, none), 404, "Context none not found"},
	} {
		status, text := r.do(c.method, c.path, c.kind, c.body, c.header)
		if status != c.status || !strings.Contains(string(text), c.has) {
			t.Errorf("%s: %d: %.300q", name, status, text)
		}
	}
	if status, text := r.do("DELETE", "/sandboxes/"+r.id, "", nil, nil); status != 204 {
		t.Fatalf("%d: %s", status, text)
	}
	for _, path := range []string{start, "/filesystem.Filesystem/ListDir"} {
		if status, text := r.do("POST", path, stream, framed("{}"), r.to(envd)); status != 502 ||
			!strings.Contains(string(text), "was not found") {
			t.Errorf("an ended sandbox, %s: %d: %s", path, status, text)
		}
	}
	if status, text := r.do("DELETE", "/sandboxes/"+r.id, "", nil, nil); status != 404 {
		t.Errorf("an ended sandbox ends again: %d: %s", status, text)
	}
}

// TestVanishingClient: a process continues without its client, and nothing of the client's stream stays.
func TestVanishingClient(t *testing.T) {
	for name, make := range map[string]func(testing.TB, httpd.Config) *rig{"HTTP/1.1": newRig, "HTTP/2": newTLSRig} {
		r := make(t, httpd.Config{})
		_ = r.hold().Close() // leaves
		body, half := io.Pipe()
		sent := framed(`{"process":{"cmd":"/bin/true"}}`)
		go func() {
			_, _ = half.Write(sent[:len(sent)/2]) // errors are those of the answer
			_ = half.CloseWithError(io.ErrUnexpectedEOF)
		}()
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+start, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = r.to(envd)
		req.Header.Set("Content-Type", stream)
		if res, err := r.client.Do(req); err == nil {
			_ = res.Body.Close()
		}
		r.waitHeld(0)
		_, text := r.call("/process.Process/List", `{}`)
		var list struct{ Processes []struct{ Tag string } }
		if err := json.Unmarshal(text, &list); err != nil || len(list.Processes) != 1 ||
			list.Processes[0].Tag != "held" {
			t.Errorf("%s: %s", name, text)
		}
		r.ends(nil)
	}
}
