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

// frame returns a frame of HTTP/2.
func frame(kind, flags byte, payload string) string {
	return string([]byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, 1}) + payload
}

// TestFrames: frames of HTTP/2 that carry no part of a body are charged, in whatever pieces they come, and so are
// fields.
func TestFrames(t *testing.T) {
	const settings, ping = 4, 6
	const field, fieldSize = "\x84", 32 + len(":path/") // RFC 7541, sections 4.1 and 6.1
	sent := clientPreface + frame(settings, 0, "") + frame(frameHeaders, endHeaders, strings.Repeat(field, 200)) +
		frame(frameData, 0, "\x00\x00\x08\x06") + frame(ping, 0, "12345678") + frame(frameData, 0, "") +
		frame(frameWindowUpdate, 0, "1234") + frame(frameHeaders, padded|priority, "\x0212345"+field+field+"\xff\xff") +
		frame(frameContinuation, endHeaders, field) + frame(settings, 0, "")
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
		if want := 4*controlTime + 3*headersTime + windowTime + 203*time.Duration(fieldSize)*headTime; spent != want {
			t.Errorf("in pieces of %d bytes: %s, not %s", size, spent, want)
		}
	}
	if f := (&frames{}); f.follow([]byte("PRI * HTTP/2.0\r\n\r\nGET / HTTP/1.1\r\n")) {
		t.Error("HTTP/1 was taken for HTTP/2")
	}
}

// TestFieldsOfRequests: a byte that refers to an earlier field is charged as that field, up to the size of a head. A
// head that net/http could not decode ends the connection.
func TestFieldsOfRequests(t *testing.T) {
	const value = 4000
	var spent time.Duration
	f := &frames{preface: len(clientPreface), conn: &Conn{spend: func(d time.Duration) { spent += d }}}
	charged := func(block string) time.Duration {
		spent = 0
		if !f.follow([]byte(frame(frameHeaders, endHeaders, block))) {
			t.Fatal("the head ends the connection")
		}
		return spent - headersTime
	}
	for _, name := range []string{"x", "trailer"} {
		first := charged("\x40" + string(byte(len(name))) + name + "\x7f\xa1\x1e" + strings.Repeat(",", value))
		if first < value*headTime || name == "trailer" && first < 3*value*headTime {
			t.Errorf("%s: %s", name, first)
		}
		if got := charged("\xbe\xbe"); got != 2*first {
			t.Errorf("%s: %s for two references to a field of %s", name, got, first)
		}
		if got := charged(strings.Repeat("\xbe", 1000)); got > 10*first || got < 8*first {
			t.Errorf("%s: %s for a head that is too long", name, got)
		}
	}
	if f.follow([]byte(frame(frameHeaders, endHeaders, "\xff\xff"))) {
		t.Error("half a field is read")
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
