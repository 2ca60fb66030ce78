package egress

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	dialTimeout    = 10 * time.Second
	resolveTimeout = 5 * time.Second
	maxHalfOpen    = 128      // connections that are dialled or shake hands
	maxFirst       = 16 << 10 // bytes that are held back until a connection has said whom it is for
)

const gateClosed = "the gate was closed"

// Options are what a gate needs. Only Rules must be set.
type Options struct {
	Rules *Rules

	// Dial connects to an address that the rules allow, as net.Dialer.DialContext; nil is that of a zero net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Resolve looks up a name that the rules allow, given with a dot at its end, as net.Resolver.LookupNetIP does; nil is the host's
	// resolver, without IPv6 where the host has no route for it.
	Resolve func(ctx context.Context, network, name string) ([]netip.Addr, error)

	// HostAddresses are the addresses of this host, which are refused; nil is net.InterfaceAddrs.
	HostAddresses func() ([]net.Addr, error)

	// Authority signs for the names whose TLS ends in the gate; nil is for rules that open none.
	Authority *sandbox.Authority

	// Roots are the authorities that servers are verified by; nil is those of the host.
	Roots *x509.CertPool

	// Log is where attempts are logged, so that it may outlive the gate; nil is a log of the gate's own.
	Log *Log
}

// Gate is the outer end of a sandbox's network.
type Gate struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	resolve func(ctx context.Context, network, name string) ([]netip.Addr, error)
	log     *Log
	rules   atomic.Pointer[Rules]
	pins    pins
	host    hostAddresses
	meter   meter

	authority *sandbox.Authority
	roots     *x509.CertPool

	device *device
	stack  *stack.Stack
	ctx    context.Context // ends with the gate
	cancel context.CancelFunc
	work   sync.WaitGroup // all goroutines of ours but the device's

	mu       sync.Mutex
	closed   bool
	flows    map[flow]struct{}
	sessions int // of UDP
	queries  int // of DNS, that are answered now
	opener   *opener
}

// flow is an open connection or session.
type flow interface {
	// reconsider ends the flow if these rules refuse it.
	reconsider(*Rules)
	// cut ends the flow at once; reason goes to the log.
	cut(reason string)
	// snapshot is the attempt as it is now.
	snapshot() Attempt
}

// Open makes a gate of a device, which it owns from now on, also if it fails.
func Open(file *os.File, o Options) (*Gate, error) {
	g := &Gate{dial: o.Dial, resolve: o.Resolve, log: o.Log, authority: o.Authority, roots: o.Roots, flows: map[flow]struct{}{}}
	if g.dial == nil {
		g.dial = (&net.Dialer{}).DialContext
	}
	if g.resolve == nil {
		g.resolve = resolveHost
	}
	if g.log == nil {
		g.log = &Log{}
	}
	if g.host.list = o.HostAddresses; g.host.list == nil {
		g.host.list = net.InterfaceAddrs
	}
	g.rules.Store(o.Rules)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	var err error
	if g.device, err = newDevice(file, g.dropped); err != nil {
		g.cancel()
		return nil, openError(err, file.Close())
	}
	if err = g.newStack(g.device); err == nil {
		err = g.serveDNS()
	}
	go g.device.read()
	if err != nil {
		return nil, openError(err, g.Close())
	}
	return g, nil
}

func openError(err, _ error) error { return &sandbox.Error{Op: "gate", Err: err} }

// Log returns what the gate has logged.
func (g *Gate) Log() *Log { return g.log }

// Current returns the connections and sessions that are open now, in no order. They are logged once they are over.
func (g *Gate) Current() []Attempt {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]Attempt, 0, len(g.flows))
	for f := range g.flows {
		list = append(list, f.snapshot())
	}
	return list
}

// SetRules replaces the rules at once. Open connections that the new rules refuse are reset.
func (g *Gate) SetRules(r *Rules) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules.Store(r)
	for f := range g.flows {
		f.reconsider(r)
	}
}

// Close resets all connections, closes the device and waits for everything.
func (g *Gate) Close() error {
	g.mu.Lock()
	first := !g.closed
	g.closed = true
	for f := range g.flows {
		f.cut(gateClosed)
	}
	o := g.opener
	g.mu.Unlock()
	if o != nil {
		_ = o.server.Close() // connections that were cut
	}
	if !first {
		<-g.device.done
		g.work.Wait()
		return nil
	}
	g.cancel()
	g.stack.Close()
	g.waitAborting()
	err := g.device.close()
	g.stack.Wait()
	return err
}

// waitAborting waits for the gate's goroutines. One may have begun a handshake while the stack was closing; nothing completes it any more.
func (g *Gate) waitAborting() {
	done := make(chan struct{})
	go func() {
		g.work.Wait()
		close(done)
	}()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-done:
			return
		case <-again.C:
			for _, e := range g.stack.RegisteredEndpoints() {
				e.Abort()
			}
		}
	}
}

// begin counts a goroutine of the gate, unless the gate is closed.
func (g *Gate) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.work.Add(1)
	}
	return !g.closed
}

// admit registers a flow and lets it be reconsidered from now on. It fails if the gate is closed.
func (g *Gate) admit(f flow) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.flows[f] = struct{}{}
	return true
}

func (g *Gate) dismiss(f flow) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.flows, f)
}

func (g *Gate) destination(to netip.AddrPort, udp bool) destination {
	return destination{to: to, udp: udp, own: g.host.has(to.Addr()), names: g.pins.names(to.Addr(), time.Now())}
}

// dropped logs a packet that the device did not pass on.
func (g *Gate) dropped(f frame) {
	g.log.add(Attempt{Time: time.Now(), Protocol: sandbox.ProtocolIP, Address: canonical(f.to), Reason: f.reason})
}
