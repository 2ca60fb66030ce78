package httpd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"net/http"
)

// slowClient takes so many bytes in a second.
type slowClient struct {
	*httptest.ResponseRecorder
	rate     int
	deadline time.Time
}

func (c *slowClient) SetWriteDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *slowClient) Write(p []byte) (int, error) {
	done := time.Now().Add(time.Duration(float64(len(p)) / float64(c.rate) * float64(time.Second)))
	if done.After(c.deadline) {
		time.Sleep(time.Until(c.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(time.Until(done))
	return len(p), nil
}

// An answer moves at a least rate as a whole. A stream that is silent meanwhile may be taken slowly.
func TestPace(t *testing.T) {
	const stepTimeout = 10 * time.Second
	for _, c := range []struct {
		name        string
		rate, piece int
		silence     time.Duration // before each of 20 pieces
		cut         bool
	}{
		{"a slow client", leastRate + 1000, 1 << 20, 0, false},
		{"one that takes every 64 KiB in 8 seconds", 8 << 10, 1 << 20, 0, true},
		{"a little at a time, always behind", 1, 9, 0, true},
		{"a little at a time, of a stream that is mostly silent", 1, 9, stepTimeout, false},
		{"nothing", 1, 64, time.Hour, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := NewResponse(&slowClient{ResponseRecorder: httptest.NewRecorder(), rate: c.rate}, stepTimeout)
			var err error
			for range 20 {
				time.Sleep(c.silence)
				if _, err = w.Write(make([]byte, c.piece)); err != nil {
					break
				}
			}
			if errors.Is(err, os.ErrDeadlineExceeded) != c.cut {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}

// known is a connection from an address.
type known struct {
	net.Conn
	from   string
	closed atomic.Bool
}

func (k *known) RemoteAddr() net.Addr { return address(k.from) }
func (k *known) Close() error         { k.closed.Store(true); return nil }

type address string

func (a address) Network() string { return "test" }
func (a address) String() string  { return string(a) }

// An idle connection gives way like one that never sent anything, and like one whose request was not admitted; of an
// IPv6 network all addresses are one.
func TestConnectionsGiveWay(t *testing.T) {
	refused := 0
	c := newConnections(6, func() { refused++ })
	pending := func(k ...io.Closer) gone {
		return goneOf(context.WithValue(t.Context(), carrier{}, carriers{c, k}))
	}
	open := func(from string, states ...http.ConnState) *known {
		k := &known{from: from}
		for _, state := range append([]http.ConnState{http.StateNew}, states...) {
			c.state(k, state)
		}
		return k
	}
	serve := func(from string) *known {
		k := open(from, http.StateActive)
		c.admit(k, "")
		return k
	}
	served := serve("[2001:db8::1]:1")
	refusedTwice := open("[2001:db8::2]:1", http.StateActive, http.StateIdle, http.StateActive)
	waited := pending(refusedTwice)
	idle := serve("[2001:db8::3]:1")
	elsewhere := open("10.0.0.1:1")
	c.state(idle, http.StateIdle)
	more := open("[2001:db8::ffff]:1")
	if !refusedTwice.closed.Load() || served.closed.Load() || idle.closed.Load() || elsewhere.closed.Load() ||
		more.closed.Load() {
		t.Error("not the oldest of its network that is not served is closed")
	}
	pause(time.Hour, waited) // it ends with the connection
	pause(time.Hour, pending(refusedTwice))
	pause(time.Hour, pending(refusedTwice, served)) // a stream ends with its connection
	if !(&cost{gone: waited}).isGone() || (&cost{gone: pending(served)}).isGone() || (&cost{}).isGone() {
		t.Error("not exactly the request whose connection gave way is cut")
	}
	if c.admit(refusedTwice, "") {
		t.Error("a request is carried out after its connection gave way")
	}
	c.state(refusedTwice, http.StateClosed)
	for range 8 {
		serve("@") // a Unix socket has no shares
	}
	if !elsewhere.closed.Load() || !idle.closed.Load() || !more.closed.Load() || served.closed.Load() ||
		refused != 7 || len(c.open) != 6 {
		t.Errorf("%d of %d gave way, %d are open", refused, 13, len(c.open))
	}
	waits := pending(served)
	if c.state(served, http.StateHijacked); (&cost{gone: waits}).isGone() {
		t.Error("a handler that took its connection over does not wait for its share")
	}
	for conn := range c.open {
		c.end(conn)
	}
	if len(c.open)+len(c.each)+c.waiting.Len() != 0 {
		t.Errorf("%+v is left", c)
	}
}

// TestBoundConnections: idle connections do not keep others from a server whose requests need no key.
func TestBoundConnections(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	BoundConnections(server.Config, 2)
	server.Start()
	defer server.Close()
	for range 4 {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// TestIdleConnections: an idle connection is closed after a while, and only then. No timer of net/http does so: that of
// HTTP/2 keeps a closed connection, with the requests that were queued, until it fires.
func TestIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnections(6, func() {})
		c.idleAfter = idleTimeout
		idle, active, ended := &known{from: "10.0.0.1:1"}, &known{from: "10.0.0.1:2"}, &known{from: "10.0.0.1:3"}
		for _, k := range []*known{idle, active, ended} {
			for _, state := range []http.ConnState{http.StateNew, http.StateActive, http.StateIdle} {
				c.state(k, state)
			}
		}
		c.state(active, http.StateActive)
		c.state(ended, http.StateClosed)
		time.Sleep(idleTimeout - time.Second)
		if idle.closed.Load() {
			t.Error("an idle connection is closed early")
		}
		time.Sleep(2 * time.Second)
		if !idle.closed.Load() || active.closed.Load() || ended.closed.Load() {
			t.Error("not only the idle connection is closed")
		}
	})
	s := newServer(t, Config{})
	if d := s.HTTPServer().IdleTimeout; d >= 0 {
		t.Errorf("net/http closes idle connections after %v", d)
	}
}
