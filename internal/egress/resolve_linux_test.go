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
	g := &gate{meter: newMeter(newBudget(Limits{}), "", 0)}
	for size, want := range map[int64]error{maxAnswer: nil, maxAnswer + 1: errLongAnswer} {
		c, err := g.newResolver().Dial(t.Context(), "tcp", l.Addr().String())
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
	c, err := g.newResolver().Dial(t.Context(), "udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, ok := c.(net.PacketConn); !ok { // package net tells datagrams from streams by it
		t.Errorf("%T", c)
	}
}

// TestAskedAgain: package net asks the host's resolver again after a failure, over TCP after an answer that is cut, and
// the gate asks for the other addresses of a name without any. All questions count.
func TestAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		code dnsmessage.RCode
		cut  bool
	}{"missing": {code: dnsmessage.RCodeNameError}, "failed": {code: dnsmessage.RCodeServerFailure},
		"cut": {cut: true}} {
		t.Run(name, func(t *testing.T) {
			var datagrams, connections atomic.Int64
			server, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			go func() {
				b := make([]byte, plainUDP)
				for {
					n, from, err := server.ReadFrom(b)
					var m dnsmessage.Message
					if err != nil || m.Unpack(b[:n]) != nil {
						return
					}
					datagrams.Add(1)
					m.Response, m.RCode, m.Truncated, m.Additionals = true, c.code, c.cut, nil
					answer, _ := m.Pack()
					_, _ = server.WriteTo(answer, from)
				}
			}()
			long := listen(t, func(c net.Conn) {
				connections.Add(1)
				_, _ = io.WriteString(c, "\xff\xff")
				_, _ = io.CopyN(c, zeroes{}, maxAnswer)
			})
			usual := dialResolver
			dialResolver = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, map[string]string{"udp": server.LocalAddr().String(),
					"tcp": long}[network])
			}
			defer func() { dialResolver = usual }()
			g := &gate{meter: newMeter(newBudget(Limits{Tracked: 4000}), "", 0)}
			if found, err := g.resolveHost(t.Context(), "ip4", "site.test."); err == nil {
				t.Fatal(found)
			}
			all := datagrams.Load() + connections.Load() // ask counts the first one
			if again := int64(-g.meter.questions.tokens); again != all-1 || again < 1 {
				t.Errorf("%d questions, and %d count as further ones", all, again)
			}
			var tracked, ports int64
			for i := range trackedSlots {
				tracked += int64(g.meter.budget.ports.datagrams[i].all())
				ports += int64(g.meter.budget.ports.owners[i].all())
			}
			if tracked != datagrams.Load()-1 || ports != connections.Load() || c.cut != (ports > 0) {
				t.Errorf("%d datagrams and %d connections, of which %d and %d are counted", datagrams.Load(),
					connections.Load(), tracked, ports)
			}
		})
	}
}
