package httpapi

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// H04: a body that drips is given up. One that came whole leaves no deadline behind, which would end a long run as if the
// client had gone away.
func TestBodyTimes(t *testing.T) {
	bounds := bodyBounds{most: 1 << 20, idle: 100 * time.Millisecond, total: 400 * time.Millisecond}
	room := &readingRoom{most: 1 << 20}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := readBody(http.NewResponseController(w), r, bounds, room)
		defer b.release()
		if err != nil {
			writeProblem(w, problemOf(err, "x"))
			return
		}
		select {
		case <-r.Context().Done():
			w.WriteHeader(http.StatusTeapot)
		case <-time.After(6 * bounds.idle):
		}
	}))
	defer server.Close()
	send := func(length string, pieces []string, pause time.Duration) string {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: "+length+"\r\n\r\n")
		for _, p := range pieces {
			io.WriteString(conn, p) // fails once the server gave up
			time.Sleep(pause)
		}
		out, _ := io.ReadAll(conn)
		return string(out)
	}
	if out := send("10", []string{"12345", "67890"}, 0); !strings.HasPrefix(out, "HTTP/1.1 200") {
		t.Errorf("a whole body: %s", out)
	}
	if out := send("10", []string{"12345"}, 0); !strings.HasPrefix(out, "HTTP/1.1 408") {
		t.Errorf("half a body: %s", out)
	}
	if out := send("100", strings.Split(strings.Repeat("x", 20), ""), bounds.idle/4); out != "" && !strings.HasPrefix(out, "HTTP/1.1 408") {
		t.Errorf("a body that drips: %s", out) // "" where the connection was reset before the answer was read
	}
	if held := room.held.Load(); held != 0 {
		t.Errorf("%d bytes are still counted", held)
	}
}
