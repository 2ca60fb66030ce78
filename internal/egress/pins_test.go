package egress

import (
	"net/netip"
	"strconv"
	"testing"
	"time"
)

// TestPins: addresses and names are forgotten in the order in which they were handed out, and with time.
func TestPins(t *testing.T) {
	var p pins
	now := time.Now()
	first := netip.MustParseAddr("9.9.9.9")
	p.add(first, "first.example", now)
	for i := range maxPins - 1 {
		p.add(netip.AddrFrom4([4]byte{8, 0, byte(i >> 8), byte(i)}), "other.example", now)
	}
	p.add(first, "again.example", now.Add(time.Minute))
	p.add(netip.MustParseAddr("7.7.7.7"), "one.more", now)
	if got := p.names(first, now.Add(pinLife)); len(got) != 2 || got[0] != "again.example" {
		t.Errorf("%q", got)
	}
	if got := p.names(first, now.Add(pinLife+time.Second)); len(got) != 1 {
		t.Errorf("after an hour: %q", got)
	}
	if got := p.names(netip.MustParseAddr("8.0.0.0"), now); got != nil || len(p.by) != maxPins ||
		p.recent.Len() != maxPins {
		t.Errorf("%q of %d", got, len(p.by))
	}
	for i := range maxPinNames {
		p.add(first, string(rune('a'+i)), now)
	}
	if p.count != maxPins-1+maxPinNames {
		t.Errorf("%d names of %d addresses", p.count, len(p.by))
	}
	if got := p.names(first, now); len(got) != maxPinNames || got[maxPinNames-1] != "a" {
		t.Errorf("%q", got)
	}
}

// TestPinnedNames: all addresses together have a bounded number of names.
func TestPinnedNames(t *testing.T) {
	var p pins
	now := time.Now()
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{8, 0, byte(i >> 8), byte(i)}) }
	for i := range maxPins * maxPinNames {
		p.add(address(i/maxPinNames), strconv.Itoa(i), now)
	}
	held := 0
	for _, e := range p.by {
		held += len(e.Value.(*pin).names)
	}
	if held != maxPinned || p.count != held || p.recent.Len() != len(p.by) {
		t.Errorf("%d names are held, and %d counted, of %d addresses", held, p.count, len(p.by))
	}
	if p.names(address(0), now) != nil || len(p.names(address(maxPins-1), now)) != maxPinNames {
		t.Error("the oldest were not removed")
	}
}
