package egress

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	maxPins     = 4096 // remembered addresses; the least recently resolved one is removed first
	maxPinNames = 16   // names of one address, likewise
	maxPinned   = 8192 // names of all addresses, of up to 253 bytes; the least recently resolved address goes first
	// pinLife is how long an address counts as a name's after it was resolved. Programs keep addresses for longer than
	// the lifetime of the record.
	pinLife = time.Hour
)

// pins remembers the names that the gate resolved to each address. The zero value is ready.
type pins struct {
	mu     sync.Mutex
	by     map[netip.Addr]*list.Element
	recent list.List // of *pin; the latest first
	count  int       // of all names
}

type pin struct {
	address netip.Addr
	names   []pinned // the latest last
}

type pinned struct {
	name string
	ends time.Time
}

// add notes that a name was resolved to an address.
func (p *pins) add(a netip.Addr, name string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[netip.Addr]*list.Element{}
	}
	e := p.by[a]
	if e == nil {
		e = p.recent.PushFront(&pin{address: a})
		p.by[a] = e
	}
	p.recent.MoveToFront(e)
	one := e.Value.(*pin)
	p.count -= len(one.names)
	one.names = slices.DeleteFunc(one.names, func(n pinned) bool { return n.name == name || now.After(n.ends) })
	if len(one.names) == maxPinNames {
		one.names = slices.Delete(one.names, 0, 1)
	}
	one.names = append(one.names, pinned{name, now.Add(pinLife)})
	for p.count += len(one.names); len(p.by) > maxPins || p.count > maxPinned; {
		oldest := p.recent.Remove(p.recent.Back()).(*pin)
		delete(p.by, oldest.address)
		p.count -= len(oldest.names)
	}
}

// names returns the names of an address, the latest first.
func (p *pins) names(a netip.Addr, now time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.by[a]
	if e == nil {
		return nil
	}
	var names []string
	for _, n := range slices.Backward(e.Value.(*pin).names) {
		if !now.After(n.ends) {
			names = append(names, n.name)
		}
	}
	return names
}
