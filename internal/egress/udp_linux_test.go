package egress

import (
	"net"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// initial is the first datagram of a connection of QUIC.
var initial = append([]byte{0xc3, 0, 0, 0, 1, 8}, make([]byte, 1194)...)

// echo returns all datagrams to addresses.
func (p *place) echo(addresses ...string) {
	echo, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { echo.Close() })
	go func() {
		b := make([]byte, 2000)
		for {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(b[:n], from)
		}
	}()
	for _, to := range addresses {
		p.world.at("udp", to, echo.LocalAddr().String())
	}
}

// TestQUICByName: at no port does a rule with a name pass QUIC, in which a client could state another name of the
// server. Other datagrams pass, and QUIC passes to an address that a rule lists.
func TestQUICByName(t *testing.T) {
	p := newPlace(t, allow("site.example:8443", "9.9.9.9:8443"))
	p.echo(site+":8443", "9.9.9.9:8443")
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		to     string
		sent   []byte
		passes bool
	}{{site, initial, false}, {site, make([]byte, 1200), true}, {"9.9.9.9", initial, true}} {
		seq := p.gate.Position()
		conn := p.mustDial("udp", c.to+":8443")
		if _, err := conn.Write(c.sent); err != nil {
			t.Fatal(err)
		}
		if c.passes {
			if n, err := conn.Read(make([]byte, 2000)); n != len(c.sent) {
				t.Errorf("%s: %d bytes, %v", c.to, n, err)
			}
		} else {
			p.loggedAfter(seq, "refuses QUIC", func(a Attempt) bool {
				return a.Protocol == sandbox.ProtocolUDP && !a.Allowed && a.Reason == rules.QUIC
			})
		}
		conn.Close()
	}
}

// TestQUICWithDeniedNames: in mode full, QUIC could state a denied name at every port. A session that began before the
// name was denied may be one of QUIC.
func TestQUICWithDeniedNames(t *testing.T) {
	full := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}
	p := newPlace(t, full)
	p.echo(site + ":8443")
	send := func(datagram []byte) net.Conn {
		conn := p.mustDial("udp", site+":8443")
		t.Cleanup(func() { conn.Close() })
		if _, err := conn.Write(datagram); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	passes := func(datagram []byte) {
		t.Helper()
		if n, err := send(datagram).Read(make([]byte, 2000)); n != len(datagram) {
			t.Fatal(n, err)
		}
	}
	passes(initial)
	seq := p.gate.Position()
	full.Deny = []string{"bad.example"}
	p.setPolicy(full)
	p.loggedAfter(seq, "ends the session", func(a Attempt) bool { return a.Reason == policyChanged+notChecked })
	seq = p.gate.Position()
	send(initial)
	p.loggedAfter(seq, "refuses QUIC", func(a Attempt) bool { return !a.Allowed && a.Reason == rules.QUIC })
	passes(make([]byte, 1200))
}
