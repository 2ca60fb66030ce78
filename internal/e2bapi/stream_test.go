package e2bapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// TestHTTP2 uses each kind of request and answer over HTTP/2. The timeout of a write is shorter than the silence of
// the process: it must not end a stream that has nothing to send.
func TestHTTP2(t *testing.T) {
	r := newTLSRig(t, httpd.Config{WriteTimeout: 200 * time.Millisecond})
	res := r.ask("GET", "/sandboxes", "", nil, nil)
	res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != 200 {
		t.Fatalf("%s %s", res.Proto, res.Status)
	}
	if out := r.sh("sleep 0.5; echo late"); !strings.Contains(out, "bGF0ZQo=") {
		t.Errorf("after a silence: %q", out)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	const path, kind = "/files?path=large", "application/octet-stream"
	if status, text := r.do("POST", path, kind, large, r.to(envd)); status != 200 {
		t.Fatalf("%d: %s", status, text)
	}
	if status, got := r.do("GET", path, "", nil, r.to(envd)); status != 200 || !bytes.Equal(got, large) {
		t.Errorf("%d, %d bytes", status, len(got))
	}
	if status, text := r.do("POST", path, kind, large, nil); status != 401 {
		t.Errorf("a refused body: %d: %s", status, text)
	}
}

// TestStreamInputStart: the first message of a stream of input names the process; others cost no search for one.
func TestStreamInputStart(t *testing.T) {
	r := newRig(t, httpd.Config{})
	out := r.hold()
	body := append(framed(`{"start":{"process":{"tag":"held"}}}`), framed(`{"start":{"process":{"tag":"none"}}}`)...)
	header := r.to(envd)
	status, text := r.do("POST", "/process.Process/StreamInput", "application/connect+json", body, header)
	if status != 200 || strings.Contains(string(text), "error") {
		t.Errorf("%d: %q", status, text)
	}
	_ = out.Close()
}

// TestUnreadWatch: what a client may leave unread of a watched folder is counted.
func TestUnreadWatch(t *testing.T) {
	for room, want := range map[int64]string{64 << 10: "resource_exhausted", 16 << 20: "start"} {
		r := newRig(t, httpd.Config{MaxAnswers: room})
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/filesystem.Filesystem/WatchDir",
			bytes.NewReader(framed(`{"path":"/tmp"}`)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = r.to(envd)
		req.Header.Set("Content-Type", "application/connect+json")
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 1<<10)
		n, _ := res.Body.Read(text) // its first message
		if !strings.Contains(string(text[:n]), want) {
			t.Errorf("room for %d bytes: %q", room, text[:n])
		}
		if _, held := r.server.Held(); want == "start" && held < engine.FileBuffer {
			t.Errorf("%d bytes are counted", held)
		}
		cancel()
		_ = res.Body.Close()
	}
}

// TestStreamInputLasts: a stream of input may last longer than a whole body, over either version of HTTP.
func TestStreamInputLasts(t *testing.T) {
	const readTimeout = 100 * time.Millisecond
	for name, start := range map[string]func(*httptest.Server){
		"HTTP/1.1": (*httptest.Server).Start, "HTTP/2": startTLS} {
		r := startRig(t, httpd.Config{}, func(at *httptest.Server) {
			at.Config.ReadTimeout = readTimeout
			start(at)
		})
		out := r.hold()
		body, input := io.Pipe()
		go func() {
			_, _ = input.Write(framed(`{"start":{"process":{"tag":"held"}}}`)) // errors are those of the answer
			time.Sleep(3 * readTimeout)
			_, _ = input.Write(framed(`{"data":{"input":{"stdin":"bGF0ZQ=="}}}`))
			_ = input.Close()
		}()
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/process.Process/StreamInput", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = r.to(envd)
		req.Header.Set("Content-Type", "application/connect+json")
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, _ := io.ReadAll(res.Body) // it may be cut
		_ = res.Body.Close()            // it was read
		if strings.Contains(string(text), "error") || len(text) == 0 {
			t.Errorf("%s: %q", name, text)
		}
		r.ends([]io.ReadCloser{out})
	}
}

// TestLongTimeout: a process may have a longer time limit than the server's maximum, as it may have none.
func TestLongTimeout(t *testing.T) {
	r := newRig(t, httpd.Config{})
	h := r.to(envd)
	h.Set("Connect-Timeout-Ms", "86400000")
	status, out := r.do("POST", "/process.Process/Start", "application/connect+json",
		framed(`{"process":{"cmd":"/bin/true"}}`), h)
	if status != 200 || !bytes.Contains(out, []byte(`"exit status 0"`)) {
		t.Errorf("%d: %q", status, out)
	}
}

// TestManyCommands: commands with a time limit hold no slot of the server while they run.
func TestManyCommands(t *testing.T) {
	r := newRig(t, httpd.Config{})
	h := r.to(envd)
	h.Set("Connect-Timeout-Ms", "600000")
	for range engine.DefaultSlots() {
		res := r.ask("POST", "/process.Process/Start", "application/connect+json",
			framed(`{"process":{"cmd":"/bin/sleep","args":["600"]}}`), h)
		defer res.Body.Close()
		readFrame(t, res.Body)
	}
	if out := r.sh("echo on"); !strings.Contains(out, base64.StdEncoding.EncodeToString([]byte("on\n"))) {
		t.Error(out)
	}
}

// follow connects to the process with the tag "held", and returns its stream.
func (r *rig) follow() io.ReadCloser {
	r.t.Helper()
	return r.ask("POST", "/process.Process/Connect", "application/connect+json",
		framed(`{"process":{"tag":"held"}}`), r.to(envd)).Body
}

// hold starts a process with the tag "held", and returns its stream.
func (r *rig) hold() io.ReadCloser {
	r.t.Helper()
	res := r.ask("POST", "/process.Process/Start", "application/connect+json",
		framed(`{"process":{"cmd":"/bin/cat"},"tag":"held"}`), r.to(envd))
	readFrame(r.t, res.Body)
	return res.Body
}

// ends returns how many streams have the end of the process, which it kills, and closes them.
func (r *rig) ends(streams []io.ReadCloser) (n int) {
	r.t.Helper()
	kill := `{"process":{"tag":"held"},"signal":"SIGNAL_SIGKILL"}`
	if status, text := r.call("/process.Process/SendSignal", kill); status != 200 {
		r.t.Fatalf("%d: %s", status, text)
	}
	for _, stream := range streams {
		rest, _ := io.ReadAll(stream) // one that was cut has no end
		_ = stream.Close()            // it was read
		if bytes.Contains(rest, []byte(`"signal: killed"`)) {
			n++
		}
	}
	return n
}

// TestConnect: a client that connects to a process gets its output from then on, and the end of one that has ended.
func TestConnect(t *testing.T) {
	r := newRig(t, httpd.Config{})
	started := r.hold()
	say := func(text string) {
		input := base64.StdEncoding.EncodeToString([]byte(text))
		status, out := r.call("/process.Process/SendInput", `{"process":{"tag":"held"},"input":{"stdin":"`+input+`"}}`)
		if status != 200 {
			t.Fatalf("%d: %s", status, out)
		}
		readFrame(t, started) // cat repeats it
	}
	say("before\n")
	connected := r.follow()
	readFrame(t, connected)
	say("after\n")
	after := base64.StdEncoding.EncodeToString([]byte("after\n"))
	if frame := readFrame(t, connected); !strings.Contains(frame, after) {
		t.Errorf("it got %s", frame)
	}
	if n := r.ends([]io.ReadCloser{started, connected, r.follow()}); n != 3 {
		t.Errorf("%d of 3 streams have the end", n)
	}
	late := r.follow()
	defer late.Close()
	if text, err := io.ReadAll(late); err != nil || bytes.Contains(text, []byte(`"data"`)) ||
		!bytes.Contains(text, []byte(`"signal: killed"`)) {
		t.Errorf("after the end: %q, %v", text, err)
	}
}

// TestManyStreams: 1,000 streams of one client are served at once.
func TestManyStreams(t *testing.T) {
	r := newTLSRig(t, httpd.Config{})
	streams := []io.ReadCloser{r.hold()}
	for range 1000 {
		streams = append(streams, r.follow())
		readFrame(t, streams[len(streams)-1])
	}
	if n := r.ends(streams); n != len(streams) {
		t.Errorf("%d of %d streams have the end", n, len(streams))
	}
}

// TestStreamLimit: a stream counts as a connection, of which one address has half. More are refused in words.
func TestStreamLimit(t *testing.T) {
	const places = 16
	r := newTLSRig(t, httpd.Config{MaxConnections: places})
	all := []io.ReadCloser{r.hold()}
	for len(all) < places/2-1 { // one place is the connection's
		all = append(all, r.follow())
	}
	status, text := r.call("/process.Process/List", `{}`)
	if status != 429 && status != 503 || !strings.Contains(string(text), "too many requests at once") {
		t.Errorf("one more: %d: %s", status, text)
	}
	_ = all[len(all)-1].Close() // resets it
	all = all[:len(all)-1]
	r.waitList()
	if n := r.ends(all); n != len(all) {
		t.Errorf("%d of %d streams have the end", n, len(all))
	}
}

// waitList waits until a call is served.
func (r *rig) waitList() {
	r.t.Helper()
	for end := time.Now().Add(stepTimeout); ; time.Sleep(2 * time.Millisecond) {
		status, text := r.call("/process.Process/List", `{}`)
		if status == 200 {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%d: %s", status, text)
		}
	}
}

// readFrame returns the next message of a stream.
func readFrame(t testing.TB, from io.Reader) string {
	t.Helper()
	head := make([]byte, 5)
	_, err := io.ReadFull(from, head)
	message := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if err == nil {
		_, err = io.ReadFull(from, message)
	}
	if err != nil {
		t.Error(err)
	}
	return string(message)
}
