package egress

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPanic: a panic in a goroutine of a gate ends the network of its sandbox, is reported and logged, and leaves the
// gates of others alone.
func TestPanic(t *testing.T) {
	n := newNeighbours(Limits{})
	n.world.at("tcp", "9.9.9.9:25", listen(t, func(c net.Conn) { _, _ = io.Copy(c, c) }))
	dial := n.host.Options.Dial
	n.host.Options.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "9.9.9.9:13" {
			panic("boom")
		}
		return dial(ctx, network, address)
	}
	n.host.Options.Resolve = func(context.Context, string, string) ([]netip.Addr, error) { panic("boom") }
	healthy := n.place(t, allow("9.9.9.9"), "a")
	echo := func(p *place) net.Conn {
		c := p.mustDial("tcp", "9.9.9.9:25")
		_, _ = io.WriteString(c, "x")
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for what, harm := range map[string]func(*place){
		"tcp": func(p *place) { p.run("curl -s -m 0.2 http://9.9.9.9:13") },
		"udp": func(p *place) {
			if c, err := p.dial("udp", "9.9.9.9:13"); err == nil {
				_, _ = c.Write([]byte("x"))
			}
		},
		"dns":   func(p *place) { p.run("timeout 0.2 getent hosts site.example") },
		"timer": func(p *place) { p.gate.stack.Clock().AfterFunc(0, func() { panic("boom") }) },
		"device": func(p *place) {
			p.gate.rules.Store(nil)
			if c, err := p.dial("udp", "9.9.9.9:99"); err == nil {
				_, _ = c.Write([]byte("x"))
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			p := n.place(t, allow("9.9.9.9", "site.example"), "a")
			open := echo(p)
			harm(p)
			p.logged("says that the gate failed", func(a Attempt) bool {
				return a.Protocol == sandbox.ProtocolIP && a.Reason == gateFailed
			})
			if _, err := open.Read(make([]byte, 1)); err == nil {
				t.Error("a connection outlived its gate")
			}
			if err := p.gate.Close(); err != nil {
				t.Error(err)
			}
			if p.panics.Load() == nil {
				t.Error("the panic was not reported")
			}
			if held := n.host.budget().connections.Held(); held != 0 {
				t.Errorf("%d connections were not ended", held)
			}
		})
	}
	echo(healthy)
}
