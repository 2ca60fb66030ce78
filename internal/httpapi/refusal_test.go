package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// TestRefusedBodies: a client that sends its whole body before it reads gets the refusal, and no reset connection.
func TestRefusedBodies(t *testing.T) {
	r, alice, _ := newTwoClients(t, httpd.Config{MaxBody: 1 << 20, MaxFile: 32 << 20})
	if res, text := r.do("POST", "/v1/sandboxes", `{"name":"work"}`, alice); res.StatusCode != 201 {
		t.Fatal(text)
	}
	const files = "/v1/sandboxes/work/files/"
	for _, c := range []struct {
		method, path, key string
		length            int // that the header claims; 0 is none
		status            int
	}{
		{"PUT", files + "f", "alice", 33 << 20, 413},
		{"PUT", files + "f", "alice", 0, 413},
		{"PUT", files + "f?mode=x", "alice", 20 << 20, 400},
		{"PUT", "/v1/sandboxes/none/files/f", "alice", 20 << 20, 404},
		{"PUT", files + "f", "none", 20 << 20, 401},
		{"POST", "/v1/run", "alice", 20 << 20, 413},
		{"POST", "/v1/nothing", "alice", 20 << 20, 404},
		{"POST", "/v1/run", "alice", 900 << 10, 400},
	} {
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\n", c.method, c.path)
		if c.key == "alice" {
			head += "X-API-Key: " + alice["X-API-Key"] + "\r\n"
		}
		body := bytes.Repeat([]byte("x"), max(c.length, 33<<20))[:max(c.length, 33<<20)]
		if c.length > 0 {
			head, body = head+fmt.Sprintf("Content-Length: %d\r\n\r\n", c.length), body[:c.length]
		} else {
			head += fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(body))
			body = append(body, "\r\n0\r\n\r\n"...)
		}
		conn, in := r.open(head)
		_, err := conn.Write(body)
		if err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
			continue
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != c.status {
			t.Errorf("%s %s, %d bytes: %v, %v; want %d", c.method, c.path, c.length, res, err, c.status)
			continue
		}
		if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), "urn:fumehood:problem") {
			t.Errorf("%s %s: %s, %v", c.method, c.path, text, err)
		}
		conn.Close()
	}
}
