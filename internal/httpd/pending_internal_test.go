package httpd

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A client of HTTP/2 without a key holds at most the budget by frames whose answers it does not read, also while it has
// a request. Answered frames, and bodies that were read, do not count.
func TestPendingFrames(t *testing.T) {
	closed := 0
	c := newConnections(8, func() { closed++ })
	inner, client := net.Pipe()
	conn := &countedConn{Conn: inner}
	c.state(conn, http.StateNew)
	c.active(conn, true)
	defer client.Close()
	frames := make([]byte, 64<<10)
	receive := func() {
		go client.Write(frames)
		if _, err := io.ReadFull(conn, frames); err != nil {
			t.Fatal(err)
		}
	}
	body := countedBody{io.NopCloser(rand.Reader), func(n int) { c.read(conn, n) }}
	for range 2 * pendingBudget / len(frames) {
		receive()
		go client.Read(make([]byte, 3<<10))
		conn.Write(make([]byte, 3<<10))
		io.ReadFull(body, make([]byte, len(frames)-1<<10))
	}
	if closed > 0 || c.pending > 0 {
		t.Errorf("%d bytes of processed frames are pending", c.pending)
	}
	for range pendingBudget / len(frames) {
		receive()
	}
	if closed > 0 || c.pending != pendingBudget {
		t.Errorf("%d bytes are pending before the limit", c.pending)
	}
	receive()
	if _, err := conn.Write(frames); err == nil || closed != 1 || c.pending != 0 || len(c.open) != 0 {
		t.Errorf("past the limit: closed %d, pending %d, open %d, %v", closed, c.pending, len(c.open), err)
	}
}

// TestRecords: each record of TLS is work of the owner of its connection, also once a handler has taken that over.
func TestRecords(t *testing.T) {
	c := newConnections(8, func() {})
	c.shares = newShares()
	inner, client := net.Pipe()
	defer client.Close()
	conn := &countedConn{Conn: inner}
	secure := tls.Server(conn, &tls.Config{})
	c.state(secure, http.StateNew)
	c.state(secure, http.StateActive)
	c.admit(secure, "key")
	const most = 150
	stream := bytes.Repeat([]byte{23, 3, 3, 0, 4, 1, 2, 3, 4, 23, 3, 3, 1, 0}, most)
	stream = bytes.ReplaceAll(stream, []byte{1, 0}, append([]byte{1, 0}, make([]byte, 256)...))
	receive := func(piece int) {
		go client.Write(stream)
		for left := len(stream); left > 0; {
			n, err := conn.Read(make([]byte, piece))
			if left -= n; err != nil {
				t.Fatal(err)
			}
		}
	}
	receive(7)
	c.state(secure, http.StateHijacked)
	receive(1000)
	want := handshakeTime + 2*2*most*recordTime
	if got := c.shares.noted; got != want || c.shares.each["key"] == nil || len(c.shares.each) != 1 {
		t.Errorf("%s of work of %d owners, want %s", got, len(c.shares.each), want)
	}
}

// TestAnswerToHead: the head of the answer to a HEAD request is one that a handler sends, and its body is not sent.
func TestAnswerToHead(t *testing.T) {
	c, conn := newConnections(8, func() {}), &known{from: "192.0.2.1:1"}
	c.state(conn, http.StateNew)
	c.active(conn, true)
	r := httptest.NewRequest("HEAD", "/", nil)
	w := NewResponse(httptest.NewRecorder(), time.Second)
	_, end, err := beginStream(w, r.WithContext(c.context(r.Context(), conn)))
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	const size = 8 << 10
	w.Header().Set("X", strings.Repeat("x", size))
	w.WriteHeader(http.StatusOK)
	if n, err := w.Write(make([]byte, 8*size)); n != 8*size || err != nil {
		t.Fatal(n, err)
	}
	if got := c.open[conn].answer; got < size || got > 2*size {
		t.Errorf("the answer has %d bytes", got)
	}
}
