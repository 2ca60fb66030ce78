package egress

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// hugeHeads answer in HTTP/1 with heads that are larger than a client needs. Each is sent and then held.
var hugeHeads = map[string][]byte{
	"/large":   []byte("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 9_600_000)),
	"/lines":   []byte("HTTP/1.1 200 OK\r\n" + tinyLines(1_000_000)),
	"/interim": []byte(strings.Repeat("HTTP/1.1 103 Early Hints\r\n"+tinyLines(300)+"\r\n", 3)),
}

// tinyLines are lines of headers with different names.
func tinyLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "x%x:\n", i)
	}
	return b.String()
}

// TestAnswerHeads: a host cannot make the gate hold more than a small head of an answer.
func TestAnswerHeads(t *testing.T) {
	p, outside, trust := openPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Inspect: []string{"api.test"}})
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	l := listenTLS(t, outside.TLS, func(c net.Conn) {
		b := make([]byte, 1<<10)
		n, _ := c.Read(b)
		_, path, _ := strings.Cut(string(b[:n]), " ")
		path, _, _ = strings.Cut(path, " ")
		_, _ = c.Write(hugeHeads[path])
		<-hold
	})
	p.world.at("tcp", "93.184.216.40:443", l)
	for path := range hugeHeads {
		before := heapSize()
		got := p.run("curl -sS --cacert " + trust + " https://api.test" + path)
		if !strings.HasSuffix(got, "its answer has headers of more than 64 KiB or 500 lines") {
			t.Errorf("%s: %.100q", path, got)
		}
		p.logged("says why", func(a Attempt) bool {
			return a.Path == path && strings.Contains(a.Reason, "64 KiB or 500 lines")
		})
		if grown := int(heapSize()) - int(before); grown > 8<<20 {
			t.Errorf("%s: the heap has grown by %d MiB", path, grown>>20)
		}
	}
	h2 := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bytes":
			w.Header().Set("X", strings.Repeat("a", 100_000))
		case "/lines":
			w.Header()["X"] = make([]string, 1000)
		case "/trailers":
			_, _ = io.WriteString(w, "body")
			_ = http.NewResponseController(w).Flush()
			w.Header()[http.TrailerPrefix+"X"] = make([]string, 1000)
		case "/interim":
			for w.Header()["X"] = make([]string, 10); r.Context().Err() == nil; {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}
	}))
	h2.EnableHTTP2, h2.TLS = true, outside.TLS.Clone()
	h2.Config.ErrorLog = log.New(io.Discard, "", 0)
	h2.StartTLS()
	t.Cleanup(h2.Close)
	p.world.at("tcp", "93.184.216.40:443", h2.Listener.Addr().String())
	for path, want := range map[string]string{"/bytes": "more than 64 KiB", "/lines": "64 KiB or 500 lines",
		"/interim": "64 KiB or 500 lines"} {
		if got := p.run("curl -sS --cacert " + trust + " https://api.test" + path); !strings.HasSuffix(got, want) {
			t.Errorf("HTTP/2, %s: %.100q", path, got)
		}
	}
	if got := p.run("curl -sS -i --cacert " + trust + " https://api.test/trailers"); strings.Contains(got, "\nx:") ||
		!strings.Contains(got, "body") {
		t.Errorf("HTTP/2: %.300q", got)
	}
	many := strings.Repeat(" -H x:1", 501)
	if got := p.run("curl -sS --cacert " + trust + many + " https://api.test/"); !strings.Contains(got, "500 lines") {
		t.Errorf("HTTP/2: %.100q", got)
	}
	// The heads of requests have bounds, too.
	conn := p.secretClient(t, "93.184.216.40:443", "api.test", trust)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: api.test\r\n"+tinyLines(1000))
	if got, err := io.ReadAll(conn); !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
		t.Errorf("%q, %v", got, err)
	}
	p.logged("has too many lines", func(a Attempt) bool { return strings.Contains(a.Reason, "500 lines of headers") })
}

// TestAnswerStatus: an answer with a status that is not one of HTTP, at which net/http panics, is refused. The gate
// remains.
func TestAnswerStatus(t *testing.T) {
	p, outside, trust := openPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Inspect: []string{"api.test"}})
	p.world.at("tcp", "93.184.216.40:443", listenTLS(t, outside.TLS, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(c, "HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n")
	}))
	for range 2 {
		if got := p.run("curl -sS --cacert " + trust + " https://api.test"); !strings.Contains(got, "not one of HTTP") {
			t.Errorf("%q", got)
		}
	}
}

// listenTLS is listen, with TLS of HTTP/1.
func listenTLS(t *testing.T, config *tls.Config, f func(net.Conn)) string {
	return listen(t, func(c net.Conn) {
		server := tls.Server(c, config)
		if server.Handshake() == nil {
			f(server)
		}
	})
}

// heapSize is the size of what is in use.
func heapSize() uint64 {
	runtime.GC()
	runtime.GC() // empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
