package egress

import (
	"net/netip"
	"strconv"
	"strings"
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

// TestPinMemory: the pins of all sandboxes of an owner take memory of the budget, and give it back. The newest stay
// where there is no more.
func TestPinMemory(t *testing.T) {
	b := newBudget(Limits{Bytes: leastBytes})
	now := time.Now()
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{8, 0, byte(i >> 8), byte(i)}) }
	long := strings.Repeat("a", 240)
	var all []*pins
	for range 20 {
		p := &pins{meter: newMeter(b, "key", 1000)}
		all = append(all, p)
		for i := range maxPinned {
			p.add(address(i%maxPins), long+strconv.Itoa(i), now)
		}
		if p.held != p.memory || p.held != p.meter.bytes {
			t.Fatalf("%d bytes are held of %d, and %d counted", p.held, p.memory, p.meter.bytes)
		}
	}
	if held := b.bytes.HeldBy("key"); held > b.bytes.Share() || held < b.bytes.Share()/2 {
		t.Errorf("%d bytes are held, of %d", held, b.bytes.Share())
	}
	if len(all[0].by) != maxPins {
		t.Errorf("the first has %d addresses", len(all[0].by))
	}
	all[0].meter.close()
	last := all[len(all)-1]
	for i := range 10 {
		last.add(address(i), "new.example", now)
		if len(last.names(address(i), now)) == 0 {
			t.Fatal("the newest is forgotten")
		}
	}
	for _, p := range all[1:] {
		p.meter.close()
	}
	if held := b.bytes.Held(); held != 0 {
		t.Errorf("%d bytes are left", held)
	}
}

// TestPinsWithoutRoom: where an owner has no memory left, a network that remembers nothing yet goes on without it.
func TestPinsWithoutRoom(t *testing.T) {
	b := newBudget(Limits{Bytes: leastBytes})
	for owner, n := range map[string]int64{"key": leastBytes * 7 / 16, "other": leastBytes * 7 / 16} {
		if !b.bytes.Take(owner, n) {
			t.Fatalf("no room for %s", owner)
		}
	}
	if !b.bytes.Take("small", leastBytes/16) { // of the part for owners with little
		t.Fatal("no room for another owner")
	}
	p := pins{meter: newMeter(b, "key", 1000)}
	p.add(netip.MustParseAddr("8.8.8.8"), "a.example", time.Now())
	if p.held != 0 || p.memory != 0 || len(p.by) != 0 {
		t.Errorf("%d bytes are held of %d, for %d addresses", p.held, p.memory, len(p.by))
	}
}
