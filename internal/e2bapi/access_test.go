package e2bapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestSignedURL: a signature finds its sandbox among all, also without the id. With the id of another one, for another
// path, or after its sandbox ended, it permits nothing.
func TestSignedURL(t *testing.T) {
	r := newRig(t, httpd.Config{})
	otherID, otherToken := r.create()
	signed := func(path, token string) string {
		sum := sha256.Sum256([]byte(path + ":read:user:" + token))
		return "/files?username=user&path=" + url.QueryEscape(path) + "&signature=" +
			url.QueryEscape("v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
	}
	for _, c := range []struct {
		name, query, id string
		want            int
	}{
		{"its sandbox by the signature", signed("/nothing", r.token), "", http.StatusNotFound}, // the file
		{"again", signed("/nothing", r.token), "", http.StatusNotFound},
		{"its sandbox by the id", signed("/nothing", otherToken), otherID, http.StatusNotFound},
		{"another sandbox", signed("/nothing", r.token), otherID, http.StatusUnauthorized},
		{"no sandbox", signed("/nothing", r.token), string(sandbox.NewID()), http.StatusUnauthorized},
		{"a wrong token", signed("/nothing", r.token+"x"), "", http.StatusUnauthorized},
		{"no signature", "/files?path=/nothing&signature=v1_", "", http.StatusUnauthorized},
	} {
		header := http.Header{}
		if c.id != "" {
			header.Set("E2b-Sandbox-Id", c.id)
			header.Set("E2b-Sandbox-Port", "49983")
		}
		if status, text := r.do("GET", c.query, "", nil, header); status != c.want {
			t.Errorf("%s: %d, %s", c.name, status, text)
		}
	}
	r.do("DELETE", "/sandboxes/"+r.id, "", nil, nil)
	if status, text := r.do("GET", signed("/nothing", r.token), "", nil, nil); status != http.StatusUnauthorized {
		t.Errorf("after the end: %d, %s", status, text)
	}
}

// TestTrafficToken: the token of a sandbox's ports opens these and the contexts of the code interpreter, as E2B's
// client expects. It runs nothing, reads no file and signs no URL.
func TestTrafficToken(t *testing.T) {
	r := newRig(t, httpd.Config{})
	_, text := r.do("GET", "/sandboxes/"+r.id, "", nil, r.key())
	var made struct{ EnvdAccessToken, TrafficAccessToken string }
	if err := json.Unmarshal(text, &made); err != nil || made.EnvdAccessToken != r.token {
		t.Fatalf("%v: %s", err, text)
	}
	sum := sha256.Sum256([]byte("/nothing:read:user:" + made.TrafficAccessToken))
	signed := "/files?username=user&path=/nothing&signature=" +
		url.QueryEscape("v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
	for _, c := range []struct {
		port, method, path string
		want               int
	}{
		{envd, "POST", "/filesystem.Filesystem/ListDir", http.StatusUnauthorized},
		{envd, "POST", "/process.Process/List", http.StatusUnauthorized},
		{envd, "GET", "/files?path=/nothing", http.StatusUnauthorized},
		{envd, "GET", signed, http.StatusUnauthorized},
		{code49999, "POST", "/execute", http.StatusUnauthorized},
		{code49999, "GET", "/contexts", http.StatusOK},
		{"8000", "GET", "/", http.StatusBadGateway}, // nothing listens
	} {
		for _, name := range []string{"X-Access-Token", "E2B-Traffic-Access-Token"} {
			header := r.to(c.port)
			header.Del("X-Access-Token")
			header.Set(name, made.TrafficAccessToken)
			if status, text := r.do(c.method, c.path, "application/json", []byte("{}"), header); status != c.want {
				t.Errorf("%s %s, with %s: %d, %s", c.method, c.path, name, status, text)
			}
		}
	}
}

// TestTokensOfKeys: a token ends with the key that got it, and with no other key of the name. So do its streams, and
// a stream of a public port with a key of the owner.
func TestTokensOfKeys(t *testing.T) {
	var secrets [2]string
	var keys [2]httpd.Key
	for i := range keys {
		var err error
		secrets[i] = httpd.NewSecret()
		if keys[i], err = httpd.NewKey("alice", secrets[i]); err != nil {
			t.Fatal(err)
		}
	}
	ring := httpd.NewKeyring(keys[:]...)
	r := &rig{t: t, secret: secrets[0]}
	r.start(httpd.Config{Keys: ring, Domain: "fh.test"}, (*httptest.Server).Start)
	first := r.token
	status, text := r.do("POST", "/sandboxes/"+r.id+"/connect", "application/json", []byte("{}"),
		http.Header{"X-Api-Key": {secrets[1]}})
	var again struct{ EnvdAccessToken string }
	if err := json.Unmarshal(text, &again); err != nil || status != http.StatusOK {
		t.Fatalf("%d: %s", status, text)
	}
	list := func(token string) int {
		r.token = token
		status, _ := r.call("/filesystem.Filesystem/ListDir", `{"path":"/"}`)
		return status
	}
	for _, token := range []string{first, again.EnvdAccessToken} {
		if status := list(token); status != http.StatusOK {
			t.Errorf("a token of a valid key: %d", status)
		}
	}
	r.serve()
	public, upload := r.stream(), r.upload(first)
	ring.Replace(keys[1:])
	if status := <-upload; status != http.StatusUnauthorized {
		t.Errorf("an upload with the token of a revoked key: %d", status)
	}
	if status := list(first); status != http.StatusUnauthorized {
		t.Errorf("the token of a revoked key: %d", status)
	}
	if status := list(again.EnvdAccessToken); status != http.StatusOK {
		t.Errorf("the token of the key that remains: %d", status)
	}
	_ = public.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, public); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a stream of a public port outlives the key")
	}
	if err := r.stream().Close(); err != nil { // the name still has a key
		t.Error(err)
	}
}

// upload begins to send a file with a token, and never ends. It returns the status of the answer.
func (r *rig) upload(token string) <-chan int {
	r.t.Helper()
	body, send := io.Pipe()
	req, err := http.NewRequestWithContext(r.t.Context(), "POST", r.url+"/files?path=slow", body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header = r.to(envd)
	req.Header.Set("X-Access-Token", token)
	req.Header.Set("Content-Type", "application/octet-stream")
	status := make(chan int, 1)
	go func() {
		res, err := r.client.Do(req)
		if err != nil {
			status <- 0
			return
		}
		_ = res.Body.Close()
		status <- res.StatusCode
	}()
	if _, err := send.Write([]byte("x")); err != nil {
		r.t.Error(err)
	}
	r.t.Cleanup(func() { send.Close() })
	return status
}

// serve starts a program on port 8000 that answers with endless streams.
func (r *rig) serve() {
	r.t.Helper()
	const program = `import socket
kept = []
at = socket.create_server(("127.0.0.1", 8000))
print("ready", flush=True)
while True:
    kept.append(at.accept()[0])
    kept[-1].sendall(b"HTTP/1.1 200 OK\r\n\r\n")
`
	start, err := json.Marshal(map[string]any{"process": map[string]any{"cmd": "python3",
		"args": []string{"-c", program}}})
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.ask("POST", "/process.Process/Start", "application/connect+json", framed(string(start)), r.to(envd)).Body
	r.t.Cleanup(func() { out.Close() })
	for range 2 { // its start and its line
		readFrame(r.t, out)
	}
}

// stream opens a stream of a program by the public name of its port.
func (r *rig) stream() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: 8000-%s.fh.test\r\n\r\n", r.id)
	line := make([]byte, len("HTTP/1.1 200"))
	if _, readErr := io.ReadFull(conn, line); err != nil || readErr != nil || string(line) != "HTTP/1.1 200" {
		r.t.Fatalf("%q, %v, %v", line, err, readErr)
	}
	return conn
}
