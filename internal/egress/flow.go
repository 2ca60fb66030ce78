package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/intercept"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// openFlow is a TCP connection or a UDP session that is open.
type openFlow interface {
	reconsider(now, before *rules.Rules) // ends the flow if the rules of now refuse it
	cut(reason string)                   // ends the flow at once; the first reason is logged
	snapshot() Attempt                   // the attempt up to now
}

// flow is the common part of TCP connections and UDP sessions.
type flow struct {
	gate  *gate
	to    netip.AddrPort
	route rules.Route // of the host to the address, when the flow began
	names []string    // of the address, when the flow began

	sent, received atomic.Int64

	mu      sync.Mutex
	attempt Attempt
	ended   bool // it was cut, or has ended
}

// decide decides about a new flow and claims what it needs by take, which returns the reason of a refusal. It asks for
// the host's route last, so the meter bounds that cost. After a refusal nothing is claimed.
func (f *flow) decide(policy *rules.Rules, take func() string, give func()) rules.Verdict {
	f.names = f.gate.pins.names(f.to.Addr(), time.Now())
	v := policy.Decide(f.destination())
	if v.Allowed {
		v.Reason = take()
	}
	if v.Reason == "" {
		if !rules.IsGateway(f.to.Addr()) {
			f.route = routeOf(f.to, f.protocol())
		}
		if f.route != rules.RouteAway {
			v = policy.Decide(f.destination())
		}
		if !v.Allowed {
			give()
		}
	}
	f.attempt.Name, f.attempt.Rule, f.attempt.Reason, f.attempt.Allowed = v.Name, v.Rule, v.Reason, v.Reason == ""
	return v
}

// destination charges the decision about its names. Those of its beginning count until it ends: the gate forgets names
// that were resolved long ago.
func (f *flow) destination() rules.Destination {
	names := f.gate.pins.names(f.to.Addr(), time.Now())
	for _, name := range f.names {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	f.gate.meter.pace.spend(time.Duration(len(names)) * nameTime)
	return rules.Destination{To: f.to, UDP: f.attempt.Protocol == sandbox.ProtocolUDP, Route: f.route, Names: names}
}

// dial connects to the destination. It refuses a connection that may have taken another route than the one that the
// rules allowed, before a byte passes.
func (f *flow) dial(ctx context.Context, network string) (net.Conn, error) {
	if rules.IsGateway(f.to.Addr()) {
		return f.dialHost(ctx, network)
	}
	c, err := f.gate.options.Dial(ctx, network, f.to.String())
	if err != nil {
		return nil, err
	}
	if err := f.checkRoute(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// dialHost connects to the host itself, at one of its loopback addresses.
func (f *flow) dialHost(ctx context.Context, network string) (c net.Conn, err error) {
	for _, loopback := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		c, err = f.gate.options.Dial(ctx, network, netip.AddrPortFrom(loopback, f.to.Port()).String())
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return c, err
}

// failed notes why dial failed: the destination does not answer, or is refused after all.
func (f *flow) failed(err error) {
	var refused rules.Refusal
	f.attempt.Allowed, f.attempt.Reason = !errors.As(err, &refused), intercept.Explain(err)
}

// checkRoute fails if the host's route to the destination has changed.
func (f *flow) checkRoute() error {
	if !rules.IsGateway(f.to.Addr()) && routeOf(f.to, f.protocol()) != f.route {
		return rules.Refusal(routeChanged)
	}
	return nil
}

// routeChanged is the reason of a flow that ends because the host now is, or no longer is, its destination.
const routeChanged = "the host's route to it changed"

// protocol returns the number of the flow's protocol.
func (f *flow) protocol() byte {
	if f.attempt.Protocol == sandbox.ProtocolUDP {
		return syscall.IPPROTO_UDP
	}
	return syscall.IPPROTO_TCP
}

// routeOf returns the route of the host to a destination, also behind NAT64. Without a port it is the route of all but
// those with rules for their port.
func routeOf(to netip.AddrPort, protocol byte) rules.Route {
	route := routeTo(to, protocol)
	if inner := rules.BehindNAT64(to.Addr()); route == rules.RouteAway && inner != to.Addr() {
		route = routeTo(netip.AddrPortFrom(inner, to.Port()), protocol)
	}
	return route
}

// routesTime is the CPU time of routeOf.
func routesTime(a netip.Addr) time.Duration {
	if rules.BehindNAT64(a) != a {
		return 2 * routeTime
	}
	return routeTime
}

// routeOfAddress returns the route of the host to an address.
func routeOfAddress(a netip.Addr) rules.Route { return routeOf(netip.AddrPortFrom(a, 0), 0) }

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
