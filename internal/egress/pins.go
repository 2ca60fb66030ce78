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

	pinMemory  = 256 // bytes that an address takes
	nameMemory = 64  // that a name of it takes, besides its text
)

// pins remembers the names that the gate resolved to each address. The zero value is ready, and counts its memory
// nowhere.
type pins struct {
	meter *meter // counts their memory: a key can have hundreds of sandboxes

	mu     sync.Mutex // guards all below
	by     map[netip.Addr]*list.Element
	recent list.List // of *pin; the latest first
	count  int       // of all names
	memory int64     // of all
	held   int64     // of the meter's memory
}

type pin struct {
	address netip.Addr
	names   []pinned // the latest last
}

type pinned struct {
	name string
	ends time.Time
}

// memory is what the pin takes.
func (p *pin) memory() int64 {
	n := int64(pinMemory)
	for i := range p.names {
		n += nameMemory + int64(len(p.names[i].name))
	}
	return n
}

// hold claims the memory of all pins, or gives back what they no longer take. It reports whether there is room.
func (p *pins) hold() bool {
	if p.meter == nil {
		return true
	}
	switch more := p.memory - p.held; {
	case more < 0:
		p.meter.unreserve(-more)
	case more > 0 && p.meter.reserve(more) != "": // a full room refuses 0, too
		return false
	}
	p.held = p.memory
	return true
}

// add notes that a name was resolved to an address. Where there is no memory for it, it takes that of older ones.
func (p *pins) add(a netip.Addr, name string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[netip.Addr]*list.Element{}
	}
	e := p.by[a]
	if e == nil {
		e = p.recent.PushFront(&pin{address: a})
		p.by[a], p.memory = e, p.memory+pinMemory
	}
	p.recent.MoveToFront(e)
	one := e.Value.(*pin)
	p.count -= len(one.names)
	p.memory -= one.memory()
	one.names = slices.DeleteFunc(one.names, func(n pinned) bool { return n.name == name || now.After(n.ends) })
	if len(one.names) == maxPinNames {
		one.names = slices.Delete(one.names, 0, 1)
	}
	one.names = append(one.names, pinned{name, now.Add(pinLife)})
	p.memory += one.memory()
	for p.count += len(one.names); len(p.by) > maxPins || p.count > maxPinned || !p.hold(); {
		oldest := p.recent.Remove(p.recent.Back()).(*pin)
		delete(p.by, oldest.address)
		p.count -= len(oldest.names)
		p.memory -= oldest.memory()
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
