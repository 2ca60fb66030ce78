package egress

import (
	"net/netip"
	"testing"
	"time"
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

func slotOf(p *ports, owner string, to netip.AddrPort) int {
	place, _ := p.take(owner, to, time.Now())
	u, _ := p.at(place)
	u.open--
	return place % portSlots
}
