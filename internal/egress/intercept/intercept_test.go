package intercept

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestDialEnds: a dial ends with the connection of the sandbox, although http.Transport would continue it.
func TestDialEnds(t *testing.T) {
	c := Conn{Dial: func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	c.ctx, c.end = context.WithCancel(t.Context())
	c.end()
	if _, err := c.dial(context.Background()); !errors.Is(err, context.Canceled) ||
		!strings.Contains(Explain(err), "canceled") {
		t.Error(err)
	}
}

// TestServerConns: the connections to a server end with that of the sandbox. One that was closed before is forgotten,
// so that a long connection keeps no closed ones.
func TestServerConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int32
		c := Conn{Dial: func(context.Context) (net.Conn, error) {
			inner, _ := net.Pipe()
			return countingConn{inner, &closed}, nil
		}}
		c.ctx, c.end = context.WithCancel(t.Context())
		for range 2 {
			if _, err := c.dial(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		server, err := c.dial(t.Context())
		if err != nil || server.Close() != nil || closed.Load() != 1 {
			t.Fatal(err, closed.Load())
		}
		c.end()
		synctest.Wait()
		if closed.Load() != 3 {
			t.Errorf("%d connections were closed", closed.Load())
		}
	})
}

type countingConn struct {
	net.Conn
	closed *atomic.Int32
}

func (c countingConn) Close() error {
	c.closed.Add(1)
	return c.Conn.Close()
}
