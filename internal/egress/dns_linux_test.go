//go:build linux

package egress

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestResolver: names that are not allowed do not exist, and addresses that are not public are not handed out.
func TestResolver(t *testing.T) {
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted,
		Allow: []string{"site.example", "*.wild.example",
			"rebind.example", "intern.example", "10.7.7.7:99"}, Deny: []string{"no.wild.example"}})
	p.world.name("site.example", site, site6, "10.0.0.1", "::1", "64:ff9b::a00:1")
	p.world.name("x.wild.example", site)
	p.world.name("no.wild.example", site)
	p.world.name("evil.example", site)
	p.world.name("rebind.example", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1")
	p.world.name("intern.example", "10.7.7.7")
	for _, c := range []struct{ network, name, want string }{
		{"ip", "site.example", "[" + site + " " + site6 + "]"}, {"ip4", "SITE.Example", "[" + site + "]"},
		{"ip4", "x.wild.example", "[" + site + "]"},
		{"ip4", "no.wild.example", "[]"}, {"ip4", "evil.example", "[]"}, {"ip4", "rebind.example", "[]"},
		{"ip4", "wild.example", "[]"},
		{"ip4", "data.evil.example", "[]"},
		{"ip4", "intern.example", "[10.7.7.7]"}, {"ip4", "0x7f.0.0.1", "[]"},
	} {
		found, err := p.look(c.network, c.name)
		if got := fmt.Sprint(found); got != c.want {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
	p.world.mu.Lock()
	for _, name := range p.world.asked {
		if strings.Contains(name, "evil") || strings.Contains(name, "no.wild") ||
			!strings.HasSuffix(name, ".example.") {
			t.Errorf("the host's resolver was asked for %s", name)
		}
	}
	p.world.mu.Unlock()
	for _, to := range []string{"10.0.0.1:80", "169.254.169.254:80", "10.7.7.7:98"} {
		if c, err := p.dial("tcp", to); err == nil {
			c.Close()
			t.Errorf("%s was reached", to)
		}
	}
	if list := p.world.reached(); len(list) > 0 {
		t.Errorf("the gate dialled %q", list)
	}
	p.logged("shows the address", func(a Attempt) bool {
		return a.Name == "rebind.example" &&
			a.Reason == "its address 169.254.169.254 is a metadata address"
	})
	strangers := allow("site.example", "intern.example")
	strangers.Ceiling = &sandbox.DefaultNetworkCeiling
	p.setPolicy(strangers)
	if found, err := p.look("ip4", "intern.example"); len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	p.logged("hides the address", func(a Attempt) bool {
		return a.Name == "intern.example" && !a.Address.IsValid() &&
			a.Reason == "its address is a private address, which the operator of this server does not open"
	})
	// Over TCP, and of a type that is not handed out: no data, and no error.
	c := p.mustDial("tcp", "198.18.0.1:53")
	// HTTPS
	query := []byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 's', 'i', 't', 'e', 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0,
		0,
		65, 0, 1}
	_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...))
	reply := make([]byte, 2+len(query))
	if _, err := io.ReadFull(c, reply); err != nil || reply[5]&15 != 0 || binary.BigEndian.Uint16(reply[8:]) != 0 {
		t.Errorf("%x, %v", reply, err)
	}
	_, _ = c.Write(binary.BigEndian.AppendUint16(nil, maxQuery+1))
	if n, err := c.Read(reply); err == nil {
		t.Errorf("a query that is too long: %d bytes", n)
	}
}

// TestQuestionRate: the host's resolver is asked no more often than the sandbox may connect, and not twice for the
// same.
func TestQuestionRate(t *testing.T) {
	policy := allow("site.example", "*.wild.example")
	policy.ConnectionRate = 10
	p := newPlace(t, policy)
	p.world.name("site.example", site)
	began := time.Now()
	for i := range 100 {
		_, _ = p.look("ip4", "site.example")
		_, _ = p.look("ip4", "missing.wild.example")
		_, _ = p.look("ip4", fmt.Sprintf("x%d.wild.example", i))
	}
	most := 10 * (1 + time.Since(began).Seconds())
	p.world.mu.Lock()
	asked := p.world.asked
	p.world.mu.Unlock()
	if float64(len(asked)) > most || len(asked) < 10 {
		t.Errorf("the host's resolver was asked %d times, of at most %.0f", len(asked), most)
	}
	count := map[string]int{}
	for _, name := range asked {
		if count[name]++; count[name] > 1+int(time.Since(began)/cacheLife) {
			t.Errorf("the host's resolver was asked again for %s", name)
		}
	}
	p.logged("says that it asks too fast", func(a Attempt) bool {
		return a.Protocol == sandbox.ProtocolDNS && !a.Allowed && a.Reason == asksFast
	})
	if held := p.gate.meter.budget.connections.Held(); held != 0 {
		t.Errorf("%d questions were not ended", held)
	}
}
