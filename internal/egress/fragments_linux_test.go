package egress

import (
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestFragmentMemory: the memory for packets in fragments counts with that of connections, until a while after the
// last of them or the end of the gate.
func TestFragmentMemory(t *testing.T) {
	b := newBudget(Limits{Bytes: 4 * fragmentMemory})
	var of [3]fragments
	var meters [3]*meter
	for i := range of {
		meters[i] = newMeter(b, "a", 0)
		if of[i].admit(meters[i]) != (i < 2) {
			t.Errorf("gate %d of an owner with room for two", i)
		}
	}
	of[0].release(meters[0])
	for range 2 { // who has a place keeps it
		if !of[2].admit(meters[2]) {
			t.Error("a place was not handed on")
		}
	}
	if of[0].admit(meters[0]) {
		t.Error("a gate without a place was admitted")
	}
	for i := range of {
		of[i].end()
		meters[i].close()
		of[i].release(meters[i])
		if of[i].admit(meters[i]) {
			t.Error("a fragment passed after the end")
		}
	}
	if held := b.bytes.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestFragmentsDropped: past that memory, fragments are dropped, and the log says why.
func TestFragmentsDropped(t *testing.T) {
	n := newNeighbours(Limits{Bytes: fragmentMemory})
	p := newPlaceOn(t, n.host, n.world, sandbox.Spec{Network: allow("8.8.8.8:99"), Limits: sandbox.DefaultLimits}, "a")
	for _, to := range []string{"8.8.8.8:99", "[2001:4860:4860::8888]:99"} {
		seq := p.gate.Position()
		c := p.mustDial("udp", to)
		_ = c.SetWriteDeadline(time.Now().Add(time.Minute))
		if _, err := c.Write(make([]byte, 4000)); err != nil {
			t.Fatal(err)
		}
		p.loggedAfter(seq, "drops fragments to "+to, func(a Attempt) bool { return a.Reason == noFragments })
	}
}
