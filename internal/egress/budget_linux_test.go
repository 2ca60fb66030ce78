package egress

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// neighbours are places of one host.
type neighbours struct {
	host  *Host
	world *world
}

func newNeighbours(l Limits) neighbours {
	w := &world{servers: map[string]string{}, names: map[string][]netip.Addr{}}
	return neighbours{&Host{Options: Options{Dial: w.dial, Resolve: w.resolve}, Limits: l}, w}
}

func (n neighbours) place(t *testing.T, p sandbox.NetworkPolicy, owner string) *place {
	t.Helper()
	return newPlaceOn(t, n.host, n.world, sandbox.Spec{Network: p, Limits: sandbox.DefaultLimits}, owner)
}

// TestConnectionsOfOwner: the sandboxes of an owner share its part of the connections, all sandboxes share the whole,
// the last of it is for owners with few, and an ended connection frees its part.
func TestConnectionsOfOwner(t *testing.T) {
	n := newNeighbours(Limits{Connections: 16, OwnerConnections: 8})
	n.world.at("tcp", "9.9.9.9:25", listen(t, func(c net.Conn) { _, _ = io.Copy(c, c) }))
	of := func(owner string) *place { return n.place(t, allow("9.9.9.9"), owner) }
	a, also, b, late := of("a"), of("warm"), of("b"), of("late")
	also.gate.SetOwner("a")
	open := func(p *place, count int) (all []net.Conn) {
		for range count {
			all = append(all, p.mustDial("tcp", "9.9.9.9:25"))
		}
		return all
	}
	refused := func(p *place, reason string) {
		t.Helper()
		seq := p.gate.Position()
		if _, err := p.dial("tcp", "9.9.9.9:25"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("one more: %v", err)
		}
		p.loggedAfter(seq, "says "+reason, func(a Attempt) bool { return a.Reason == reason && !a.Allowed })
	}
	held := open(a, 3)
	open(also, 5)
	refused(a, ownerFull)
	refused(also, ownerFull)
	open(b, 6)
	refused(b, budgetFull)
	open(late, 1) // the rest is for owners with few
	refused(late, budgetFull)
	held[0].Close()
	a.logged("ends", func(a Attempt) bool { return a.Allowed })
	if err := a.gate.Close(); err != nil {
		t.Error(err)
	}
	open(b, 2)
	refused(b, tooMany)
	refused(also, budgetFull)
}

// TestMaxConnections: no policy may name more connections than a sandbox of the host may have.
func TestMaxConnections(t *testing.T) {
	h := &Host{Limits: Limits{Connections: 100, OwnerConnections: 50}}
	p := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, MaxConnections: 51}
	err := h.Complete(&p)
	if sandbox.KindOf(err) != sandbox.Invalid ||
		err.Error() != "network.max_connections: 51 is more than 50, the maximum here" {
		t.Errorf("got %v", err)
	}
	p.MaxConnections = 50
	if err := h.Complete(&p); err != nil {
		t.Error(err)
	}
}
