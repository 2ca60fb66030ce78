package intercept

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFrames: frames of HTTP/2 that carry no part of a body are charged, in whatever pieces they come.
func TestFrames(t *testing.T) {
	frame := func(kind byte, payload string) string {
		return string([]byte{0, 0, byte(len(payload)), kind, 0, 0, 0, 0, 1}) + payload
	}
	const settings, ping = 4, 6
	sent := clientPreface + frame(settings, "") + frame(frameHeaders, strings.Repeat("\x04", 200)) +
		frame(frameData, "\x00\x00\x08\x06") + frame(ping, "12345678") + frame(frameData, "") +
		frame(frameWindowUpdate, "1234") + frame(frameContinuation, "") + frame(settings, "")
	for size := 1; size <= len(sent); size++ {
		var spent time.Duration
		f := &frames{conn: &Conn{spend: func(d time.Duration) { spent += d }}}
		for rest := sent; rest != ""; {
			n := min(size, len(rest))
			if !f.follow([]byte(rest[:n])) {
				t.Fatalf("in pieces of %d bytes: not HTTP/2", size)
			}
			rest = rest[n:]
		}
		if want := 4*controlTime + 2*headersTime + windowTime; spent != want {
			t.Errorf("in pieces of %d bytes: %s, not %s", size, spent, want)
		}
	}
	if f := (&frames{}); f.follow([]byte("PRI * HTTP/2.0\r\n\r\nGET / HTTP/1.1\r\n")) {
		t.Error("HTTP/1 was taken for HTTP/2")
	}
}

// TestIdleConnection: a connection is closed if it stays idle, and nothing waits for that once it has ended.
func TestIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, last := range []http.ConnState{http.StateIdle, http.StateActive, http.StateClosed} {
			inside, outside := net.Pipe()
			defer outside.Close()
			c := &Conn{}
			for _, state := range []http.ConnState{http.StateIdle, http.StateActive, http.StateIdle, last} {
				c.expire(inside, state)
			}
			time.Sleep(2 * idleTimeout)
			inside.SetReadDeadline(time.Now())
			_, err := inside.Read(make([]byte, 1))
			if closed := errors.Is(err, io.ErrClosedPipe); closed != (last == http.StateIdle) {
				t.Errorf("after %v: %v", last, err)
			}
		}
	})
	authority, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(Config{Authority: authority})
	if err != nil {
		t.Fatal(err)
	}
	if d := s.http.IdleTimeout; d >= 0 {
		t.Errorf("net/http closes idle connections after %v", d)
	}
}
