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

	"github.com/fumehood-dev/fumehood/internal/duplex"
)

// TestFrames: frames of HTTP/2 that carry no part of a body are charged, in whatever pieces they come, and so are
// fields.
func TestFrames(t *testing.T) {
	frame := func(kind byte, payload string) string {
		return string([]byte{0, 0, byte(len(payload)), kind, 4, 0, 0, 0, 1}) + payload // END_HEADERS
	}
	const settings, ping = 4, 6
	sent := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(settings, "") +
		frame(duplex.FrameHeaders, strings.Repeat("\x84", 200)) +
		frame(frameData, "\x00\x00\x08\x06") + frame(ping, "12345678") + frame(frameData, "") +
		frame(frameWindowUpdate, "1234") + frame(duplex.FrameContinuation, "") + frame(settings, "")
	for size := 1; size <= len(sent); size++ {
		var spent, fields time.Duration
		f := newFrames(nil, &Conn{spend: func(d time.Duration) { spent += d }})
		f.follow.OnFields = func(d time.Duration) { fields += d }
		for rest := sent; rest != ""; {
			n := min(size, len(rest))
			if !f.follow.Follow([]byte(rest[:n])) {
				t.Fatalf("in pieces of %d bytes: not HTTP/2", size)
			}
			rest = rest[n:]
		}
		if want := 4*controlTime + 2*headersTime + windowTime; spent != want || fields == 0 {
			t.Errorf("in pieces of %d bytes: %s, not %s, and %s for fields", size, spent, want, fields)
		}
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
