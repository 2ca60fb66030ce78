package egress

import (
	"fmt"
	"hash/maphash"
	"math"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

const (
	portsFile  = "/proc/sys/net/ipv4/ip_local_port_range" // ip(7)
	usualPorts = 28232                                    // if the range is unknown
	portShare  = 2                                        // an owner may use 1/2 of the ports to a destination
	portSlots  = 8 << 10
	// portRest is how long the kernel keeps the port of a connection that this side has ended first (TIME_WAIT in
	// tcp(7)). It gives the port to no other connection to the same destination.
	portRest = time.Minute
	noPort   = -1

	trackedFile  = "/proc/sys/net/netfilter/nf_conntrack_max"
	trackedShare = 4 // an owner may have 1/4 of the connections that the host's firewall tracks
	trackedSlots = 1 << 10
)

const (
	portsFull   = "the sandboxes of its owner have opened as many connections to it as they may in a minute"
	trackedFull = "the sandboxes of its owner have opened as many connections as they may in a minute"
)

// hostPorts returns how many connections this host can have to one destination.
func hostPorts() int {
	var low, high int
	b, _ := os.ReadFile(portsFile) // it is absent on other systems
	if _, err := fmt.Sscan(string(b), &low, &high); err != nil || high < low {
		return usualPorts
	}
	return high - low + 1
}

// hostTracked returns how many connections the firewall of this host tracks, past which it drops new ones of all
// programs; 0 is none. It keeps one for two minutes after its end.
func hostTracked() (most int) {
	b, _ := os.ReadFile(trackedFile) // it is absent without such a firewall
	_, _ = fmt.Sscan(string(b), &most)
	return max(most, 0)
}

// ports counts the ports that connections of each owner to each destination take, and what the host's firewall tracks
// of each owner: its connections, and as many sessions of UDP and questions to the resolver. Its size does not depend
// on how many destinations and owners there are: those with the same hash share a slot.
type ports struct {
	most    int32
	tracked int32 // of one owner; 0 is no bound
	seed    maphash.Seed

	mu     sync.Mutex // guards all below
	turned time.Time
	used   [portSlots]portUse
	owners [trackedSlots]portUse // to all destinations

	datagrams [trackedSlots]portUse // sessions of UDP and questions to the resolver, by owner
}

type portUse struct {
	open  int32
	ended [2]int32 // in this turn and in the one before
}

func (u *portUse) all() int32 { return u.open + u.ended[0] + u.ended[1] }

func newPorts(all, tracked int) *ports {
	return &ports{most: int32(max(all/portShare, 1)), tracked: int32(min(tracked/trackedShare, math.MaxInt32)),
		seed: maphash.MakeSeed()}
}

// take claims a port. It returns its place, or the reason if the owner has as many as it may.
func (p *ports) take(owner string, to netip.AddrPort, now time.Time) (place int, reason string) {
	if rules.IsGateway(to.Addr()) { // on loopback, the kernel uses ports again
		return noPort, ""
	}
	hash := maphash.Comparable(p.seed, struct {
		owner string
		to    netip.AddrPort
	}{owner, to})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	place = int(hash%portSlots) + portSlots*int(maphash.String(p.seed, owner)%trackedSlots)
	u, all := p.at(place)
	switch {
	case u.all() >= p.most:
		return noPort, portsFull
	case p.tracked > 0 && all.all() >= p.tracked:
		return noPort, trackedFull
	}
	u.open++
	all.open++
	return place, ""
}

// at returns the use of a port's destination, and that of its owner. The caller holds mu.
func (p *ports) at(place int) (destination, owner *portUse) {
	return &p.used[place%portSlots], &p.owners[place/portSlots]
}

// give gives back the port of a connection that has ended. If the connection was open, the port counts for one to two
// minutes more.
func (p *ports) give(place int, wasOpen bool, now time.Time) {
	if place == noPort {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	u, all := p.at(place)
	u.open--
	if wasOpen {
		u.ended[0]++
	}
	all.open--
	all.ended[0]++ // a failed one is tracked, too
}

// track counts a session of UDP or a question to the host's resolver, from its beginning for one to two minutes: the
// firewall forgets one that nothing uses after half of that. It returns the reason if the owner has as many as it may.
func (p *ports) track(owner string, now time.Time) (reason string) {
	if p.tracked == 0 {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	u := &p.datagrams[maphash.String(p.seed, owner)%trackedSlots]
	if u.all() >= p.tracked {
		return trackedFull
	}
	u.ended[0]++
	return ""
}

// turn forgets ports that the kernel has. The caller holds mu.
func (p *ports) turn(now time.Time) {
	age := now.Sub(p.turned)
	if age < portRest {
		return
	}
	p.turned = now
	for _, uses := range [][]portUse{p.used[:], p.owners[:], p.datagrams[:]} {
		for i := range uses {
			ended := &uses[i].ended
			ended[1], ended[0] = ended[0], 0
			if age >= 2*portRest {
				ended[1] = 0
			}
		}
	}
}

// dial claims a TCP connection to a destination, with memory and a port, or returns the reason of a refusal.
func (m *meter) dial(b rules.Bounds, to netip.AddrPort, now time.Time, memory int64) (slot int, reason string) {
	if reason = m.take(b, now, memory); reason != "" {
		return noPort, reason
	}
	m.mu.Lock()
	owner := m.owner
	m.mu.Unlock()
	if slot, reason = m.budget.ports.take(owner, to, now); reason != "" {
		m.release(memory)
	}
	return slot, reason
}

// hangUp gives back what dial claimed.
func (m *meter) hangUp(slot int, wasOpen bool, memory int64) {
	m.budget.ports.give(slot, wasOpen, time.Now())
	m.release(memory)
}
