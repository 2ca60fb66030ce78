package egress

import (
	"net"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestQUICByName: at no port does a rule with a name pass QUIC, in which a client could state another name of the
// server. Other datagrams pass, and QUIC passes to an address that a rule lists.
func TestQUICByName(t *testing.T) {
	p := newPlace(t, allow("site.example:8443", "9.9.9.9:8443"))
	echo, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
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
	for _, to := range []string{site, "9.9.9.9"} {
		p.world.at("udp", to+":8443", echo.LocalAddr().String())
	}
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	initial := append([]byte{0xc3, 0, 0, 0, 1, 8}, make([]byte, 1194)...)
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
