package egress

import (
	"fmt"
	"hash/maphash"
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
)

const portsFull = "the sandboxes of its owner have opened as many connections to it as they may in a minute"

// hostPorts returns how many connections this host can have to one destination.
func hostPorts() int {
	var low, high int
	b, _ := os.ReadFile(portsFile) // it is absent on other systems
	if _, err := fmt.Sscan(string(b), &low, &high); err != nil || high < low {
		return usualPorts
	}
	return high - low + 1
}

// ports counts the ports that connections of each owner to each destination take. Its size does not depend on how many
// destinations there are: those with the same hash share a slot.
type ports struct {
	most int32
	seed maphash.Seed

	mu     sync.Mutex // guards all below
	turned time.Time
	used   [portSlots]portUse
}

type portUse struct {
	open  int32
	ended [2]int32 // in this turn and in the one before
}

func newPorts(all int) *ports {
	return &ports{most: int32(max(all/portShare, 1)), seed: maphash.MakeSeed()}
}

// take claims a port. It returns the slot, and false if the owner has as many as it may.
func (p *ports) take(owner string, to netip.AddrPort, now time.Time) (slot int, ok bool) {
	if rules.IsGateway(to.Addr()) { // on loopback, the kernel uses ports again
		return noPort, true
	}
	hash := maphash.Comparable(p.seed, struct {
		owner string
		to    netip.AddrPort
	}{owner, to})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	slot = int(hash % portSlots)
	u := &p.used[slot]
	if u.open+u.ended[0]+u.ended[1] >= p.most {
		return noPort, false
	}
	u.open++
	return slot, true
}

// give gives back the port of a connection that has ended. If the connection was open, the port counts for one to two
// minutes more.
func (p *ports) give(slot int, wasOpen bool, now time.Time) {
	if slot == noPort {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	p.used[slot].open--
	if wasOpen {
		p.used[slot].ended[0]++
	}
}

// turn forgets ports that the kernel has. The caller holds mu.
func (p *ports) turn(now time.Time) {
	age := now.Sub(p.turned)
	if age < portRest {
		return
	}
	p.turned = now
	for i := range p.used {
		ended := &p.used[i].ended
		ended[1], ended[0] = ended[0], 0
		if age >= 2*portRest {
			ended[1] = 0
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
	slot, ok := m.budget.ports.take(owner, to, now)
	if !ok {
		m.release(memory)
		return noPort, portsFull
	}
	return slot, ""
}

// hangUp gives back what dial claimed.
func (m *meter) hangUp(slot int, wasOpen bool, memory int64) {
	m.budget.ports.give(slot, wasOpen, time.Now())
	m.release(memory)
}
