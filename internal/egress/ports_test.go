package egress

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// TestPorts: an owner has half of the ports to a destination, which count until the kernel has them again.
func TestPorts(t *testing.T) {
	to, other := netip.MustParseAddrPort("9.9.9.9:443"), netip.MustParseAddrPort("9.9.9.9:80")
	now := time.Now()
	p := newPorts(20, 0)
	for slotOf(p, "a", to) == slotOf(p, "a", other) || slotOf(p, "a", to) == slotOf(p, "b", to) {
		p = newPorts(20, 0) // they share a slot
	}
	takes := func(owner string, to netip.AddrPort) (slots []int) {
		for {
			slot, reason := p.take(owner, to, now)
			if reason != "" {
				return slots
			}
			slots = append(slots, slot)
		}
	}
	first := takes("a", to)
	if len(first) != 10 || len(takes("a", other)) != 10 || len(takes("b", to)) != 10 {
		t.Errorf("%d ports of 10", len(first))
	}
	for _, slot := range first[:4] {
		p.give(slot, true, now)
	}
	p.give(first[4], false, now)
	if more := takes("a", to); len(more) != 1 {
		t.Errorf("%d ports after one connection that failed", len(more))
	}
	if more := takes("a", to); more != nil {
		t.Errorf("%d ports that the kernel keeps", len(more))
	}
	now = now.Add(2*portRest + time.Second)
	if more := takes("a", to); len(more) != 4 {
		t.Errorf("%d ports after their rest", len(more))
	}
}

// TestTracked: connections to all destinations, also failed ones, count until the host's firewall has forgotten them.
func TestTracked(t *testing.T) {
	now := time.Now()
	p := newPorts(1000, 40)
	connect := func(owner string, n int) (refused string) {
		for i := range n {
			to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{9, 9, 9, byte(i)}), 443)
			place, reason := p.take(owner, to, now)
			if reason != "" {
				return reason
			}
			p.give(place, i%2 == 0, now)
		}
		return ""
	}
	if reason := connect("a", 10); reason != "" {
		t.Errorf("a quarter: %s", reason)
	}
	if reason := connect("a", 1); reason != trackedFull {
		t.Errorf("one more: %q", reason)
	}
	if now = now.Add(2*portRest + time.Second); connect("a", 10) != "" {
		t.Error("connections of three minutes ago count")
	}
}

// TestTrackedDatagrams: sessions of UDP and questions to the resolver count apart from connections, also two minutes
// later, and are refused past a quarter.
func TestTrackedDatagrams(t *testing.T) {
	now := time.Now()
	b := newBudget(Limits{Connections: 100, Ports: 1000, Tracked: 40})
	m := newMeter(b, "a", 1000)
	bounds := rules.Bounds{Connections: 100, Rate: 100}
	for n := range 12 {
		reason := ""
		if n%2 == 0 {
			reason = m.track(now)
		} else if reason = m.ask(bounds, now); reason == "" {
			m.release(questionMemory)
		}
		if (reason == trackedFull) != (n >= 10) {
			t.Errorf("%d: %q", n, reason)
		}
	}
	if m.open != 0 || m.bytes != 0 {
		t.Errorf("%d connections and %d bytes are held", m.open, m.bytes)
	}
	if now = now.Add(2*portRest + time.Second); m.track(now) != "" {
		t.Error("those of two minutes ago count")
	}
}

func slotOf(p *ports, owner string, to netip.AddrPort) int {
	place, _ := p.take(owner, to, time.Now())
	u, _ := p.at(place)
	u.open--
	return place % portSlots
}
