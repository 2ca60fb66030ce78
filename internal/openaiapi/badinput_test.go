package openaiapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// fault returns the message and the code of an error in OpenAI's form.
func fault(text []byte) (message, code string) {
	var out struct {
		Error struct{ Message, Type, Code string }
	}
	if json.Unmarshal(text, &out) != nil || out.Error.Type == "" {
		return "", ""
	}
	return out.Error.Message, out.Error.Code
}

// TestBadInput: errors have OpenAI's form.
func TestBadInput(t *testing.T) {
	c := newContainer(t, httpd.Config{MaxBody: 64 << 10, MaxFile: 1 << 20})
	const shell, code, form = "/shell_calls", "/code_interpreter_calls", "multipart/form-data; boundary=b"
	const head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
	for name, q := range map[string]struct {
		method, path, kind, body string
		status                   int
		code                     string
	}{
		"unknown container": {"GET", "/../cntr_none", "", "", 404, "not_found"},
		"unknown API":       {"POST", "/../../responses", "application/json", "{}", 404, "not_found"},
		"unknown file":      {"GET", "/files/cfile_none/content", "", "", 404, "not_found"},
		"long JSON": {"POST", code, "application/json", `{"code":"` + strings.Repeat("x", 1<<20) + `"}`,
			413, ""},
		"cut JSON":    {"POST", code, "application/json", `{"code":"1`, 400, ""},
		"no commands": {"POST", shell, "application/json", "{}", 400, ""},
		"negative timeout": {"POST", shell, "application/json", `{"action":{"commands":["true"],"timeout_ms":-1}}`,
			400, ""},
		"long file": {"POST", "/files", form, head + strings.Repeat("x", 2<<20) + "\r\n--b--\r\n", 413, ""},
		"cut form":  {"POST", "/files", form, head + "x", 400, ""},
		"no form":   {"POST", "/files", "text/plain", "x", 400, ""},
	} {
		status, text := c.send(q.method, q.path, q.kind, strings.NewReader(q.body))
		if message, code := fault(text); status != q.status || code != q.code || message == "" {
			t.Errorf("%s: %d: %.300s", name, status, text)
		}
	}
	if status, text := c.do("DELETE", "", ""); status != 200 {
		t.Fatalf("%d: %s", status, text)
	}
	for _, method := range []string{"GET", "DELETE"} {
		status, text := c.do(method, "", "")
		if _, code := fault(text); status != 404 || code != "not_found" {
			t.Errorf("%s of an ended container: %d: %s", method, status, text)
		}
	}
}

// begin sends a shell call. Its client leaves once leave is called, which waits.
func (c *container) begin(command string) (leave func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	action := map[string]any{"commands": []string{command}}
	body, _ := json.Marshal(map[string]any{"action": action}) // it always has a JSON form
	req, err := http.NewRequestWithContext(ctx, "POST", c.url+"/shell_calls", strings.NewReader(string(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := c.client.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	return func() { cancel(); <-ended }
}

// waitFor repeats a command until it ends with 0.
func (c *container) waitFor(command string) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		_, text := c.do("POST", "/shell_calls", `{"action":{"commands":["`+command+`"]}}`)
		if strings.Contains(string(text), `"exit_code":0`) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s: %s", command, text)
		}
	}
}

// TestVanishingClient: a command ends with its client, as nobody can read its output.
func TestVanishingClient(t *testing.T) {
	c := newContainer(t, httpd.Config{})
	leave := c.begin("echo $$ > pid; exec sleep 600")
	c.waitFor("test -s pid")
	leave()
	c.waitFor("! kill -0 $(cat pid)")
}

// TestManyCalls: calls over the limit of one client are refused in OpenAI's words, and leave the others alone.
func TestManyCalls(t *testing.T) {
	const places = 16 // half of them for one address
	c := newContainer(t, httpd.Config{MaxConnections: places})
	var leave []func()
	for range places/2 - 1 { // one place is the connection's
		leave = append(leave, c.begin("sleep 600"))
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		status, text := c.do("GET", "", "")
		if message, code := fault(text); status == 429 && code == "rate_limit_exceeded" && message != "" {
			break
		}
		if status != 200 || time.Now().After(end) {
			t.Fatalf("%d: %s", status, text)
		}
		leave = append(leave, c.begin("sleep 600")) // an earlier one was refused if this GET took the last place
	}
	for _, one := range leave {
		one()
	}
	c.waitFor("true")
}
