package egress

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// openFlow is a TCP connection or a UDP session that is open.
type openFlow interface {
	reconsider(*rules.Rules) // ends the flow if these rules refuse it
	cut(reason string)       // ends the flow at once; the first reason is logged
	snapshot() Attempt       // the attempt up to now
}

// flow is the common part of TCP connections and UDP sessions.
type flow struct {
	gate *gate
	to   netip.AddrPort

	sent, received atomic.Int64

	mu      sync.Mutex
	attempt Attempt
	ended   bool // it was cut, or has ended
}

// end marks the flow as ended and notes the reason. It reports whether the flow was open.
func (f *flow) end(reason string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	f.ended, f.attempt.Reason = true, reason
	return true
}

// count counts bytes. It fails once the gate has none left.
func (f *flow) count(sent, received int) error {
	f.sent.Add(int64(sent))
	f.received.Add(int64(received))
	if f.gate.meter.count(f.gate.rules.Load().Bounds, sent, received) {
		return nil
	}
	return rules.Refusal(allUsed)
}

func (f *flow) snapshot() Attempt {
	f.mu.Lock()
	a := f.attempt
	f.mu.Unlock()
	a.Duration = time.Since(a.Time)
	a.Sent, a.Received = f.sent.Load(), f.received.Load()
	return a
}

// log logs the flow once it has ended.
func (f *flow) log() { f.gate.add(f.snapshot()) }

// registry has the goroutines, flows and queries of a gate. Once the gate is closed it accepts no more.
type registry struct {
	work sync.WaitGroup // all goroutines of the gate except the device's

	mu       sync.Mutex
	closed   bool
	flows    map[openFlow]struct{}
	sessions int // of UDP
	queries  int // of DNS, that are being answered
}

// begin counts a goroutine of the gate.
func (r *registry) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.work.Add(1)
	}
	return !r.closed
}

// admit registers a flow, so that SetPolicy reconsiders it.
func (r *registry) admit(f openFlow) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.flows[f] = struct{}{}
	}
	return !r.closed
}

func (r *registry) dismiss(f openFlow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flows, f)
}

func (r *registry) beginQuery() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.queries == maxQueries {
		return false
	}
	r.queries++
	return true
}

func (r *registry) endQuery() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries--
}
