package intercept

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestRedactCredentials: an answer that repeats credentials with two secrets reveals neither.
func TestRedactCredentials(t *testing.T) {
	secrets := []rules.Secret{
		{Secret: sandbox.Secret{Name: "USER", Value: "the first value", Placeholder: "held-1"}},
		{Secret: sandbox.Secret{Name: "PASSWORD", Value: "the second value", Placeholder: "held-2"}},
	}
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	h := http.Header{"Authorization": {basic("held-1:held-2")}, "X-Key": {"held-2held-1"}}
	swaps := insertSecrets(h, secrets)
	if h.Get("Authorization") != basic("the first value:the second value") ||
		h.Get("X-Key") != "the second valuethe first value" {
		t.Fatalf("the server gets %v", h)
	}
	redactHeader(h, swaps)
	if h.Get("Authorization") != basic("held-1:held-2") || h.Get("X-Key") != "held-2held-1" {
		t.Errorf("the sandbox gets %v", h)
	}
}

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

// TestServerConns: the connections to a server end with that of the sandbox. One that was closed before is forgotten, so
// that a long connection keeps no closed ones.
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
