package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
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

// TestAskedAgain: for a name without addresses the host's resolver is asked twice, and both questions count.
func TestAskedAgain(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	go func() {
		b := make([]byte, plainUDP)
		for {
			n, from, err := server.ReadFrom(b)
			var m dnsmessage.Message
			if err != nil || m.Unpack(b[:n]) != nil {
				return
			}
			asked.Add(1)
			m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeNameError, nil
			answer, _ := m.Pack()
			_, _ = server.WriteTo(answer, from)
		}
	}()
	dial := resolver.Dial
	resolver.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}
	defer func() { server.Close(); resolver.Dial = dial }()
	g := &gate{meter: newMeter(newBudget(Limits{}), "", 0)}
	if found, err := g.resolveHost(t.Context(), "ip4", "missing.test."); !isMissing(err) {
		t.Fatal(found, err)
	}
	// resolve counts the first one.
	if again := int64(-g.meter.questions.tokens); again != asked.Load()-1 || again < 1 {
		t.Errorf("%d questions, and %d count as further ones", asked.Load(), again)
	}
}
