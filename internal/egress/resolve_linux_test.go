package egress

import (
	"errors"
	"io"
	"net"
	"testing"
)

// TestLongAnswer: the gate reads no long answers of the host's resolver.
func TestLongAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for size, want := range map[int64]error{maxAnswer: nil, maxAnswer + 1: errLongAnswer} {
		c, err := resolver.Dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.CopyN(far, zeroes{}, size)
			far.Close()
		}()
		if n, err := io.Copy(io.Discard, c); !errors.Is(err, want) || n > maxAnswer {
			t.Errorf("%d of %d bytes: %v", n, size, err)
		}
		c.Close()
	}
	c, err := resolver.Dial(t.Context(), "udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, ok := c.(net.PacketConn); !ok { // package net tells datagrams from streams by it
		t.Errorf("%T", c)
	}
}
