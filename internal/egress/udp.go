package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	sessionIdle = 60 * time.Second // a session ends after this long without a datagram
	// maxSessions bounds their memory: a session holds two buffers of copySize.
	maxSessions = 64
)

// session is the exchange of datagrams between one port of the sandbox and one destination.
type session struct {
	gate  *Gate
	to    netip.AddrPort
	inner *gonet.UDPConn
	outer net.Conn

	sent, received atomic.Int64
	active         atomic.Int64 // when the last datagram passed, in Unix nanoseconds

	mu      sync.Mutex
	attempt Attempt
	over    bool
}

// datagram handles the first datagram of a session, on the device's goroutine. What it does not handle is answered with "port unreachable".
func (g *Gate) datagram(r *udp.ForwarderRequest) bool {
	id := r.ID()
	to := addressOf(id.LocalAddress, id.LocalPort)
	rules := g.rules.Load()
	v := rules.decide(g.destination(to, true))
	a := Attempt{Time: time.Now(), Protocol: sandbox.ProtocolUDP, Name: v.name, Address: to.Addr(), Port: to.Port(), Rule: v.rule, Reason: v.reason}
	if v.allowed {
		a.Reason = g.takeSession(rules.bounds, a.Time)
	}
	if a.Reason != "" {
		g.log.add(a)
		return false
	}
	a.Allowed = true
	var queue waiter.Queue
	endpoint, failed := r.CreateEndpoint(&queue)
	if failed != nil {
		g.giveSession()
		return false
	}
	s := &session{gate: g, to: to, inner: gonet.NewUDPConn(&queue, endpoint), attempt: a}
	go s.run(rules)
	return true
}

// takeSession claims a session and counts its goroutine. The reason says why there is none.
func (g *Gate) takeSession(b bounds, now time.Time) (reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return gateClosed
	case g.sessions == maxSessions:
		return tooMany
	}
	if reason = g.meter.take(b, now); reason == "" {
		g.sessions++
		g.work.Add(1)
	}
	return reason
}

func (g *Gate) giveSession() {
	g.meter.release()
	g.mu.Lock()
	g.sessions--
	g.mu.Unlock()
	g.work.Done()
}

func (s *session) run(rules *Rules) {
	g := s.gate
	defer g.giveSession()
	defer s.log()
	defer s.inner.Close()
	ctx, cancel := context.WithTimeout(g.ctx, dialTimeout)
	defer cancel()
	outer, err := g.dial(ctx, "udp", s.to.String())
	if err != nil {
		s.attempt.Reason = dialError(err)
		return
	}
	s.outer = outer
	defer outer.Close()
	if !g.admit(s) {
		return
	}
	defer g.dismiss(s)
	if now := g.rules.Load(); now != rules {
		s.reconsider(now)
	}
	s.active.Store(time.Now().UnixNano())
	var back sync.WaitGroup
	back.Go(func() {
		s.relay(outer, s.inner, &s.received, &g.meter.received)
		s.cut("")
	})
	s.relay(s.inner, outer, &s.sent, &g.meter.sent)
	s.cut("")
	back.Wait()
}

// relay passes datagrams on until either side ends or has been silent for long.
func (s *session) relay(from, to net.Conn, own, all *atomic.Int64) {
	b := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(b)
	for {
		idle := sessionIdle - time.Since(time.Unix(0, s.active.Load()))
		_ = from.SetReadDeadline(time.Now().Add(idle))
		n, err := from.Read(b[:])
		switch {
		case err != nil && idle > 0 && isTimeout(err):
			continue // the other direction may have been active
		case err != nil:
			return
		}
		s.active.Store(time.Now().UnixNano())
		own.Add(int64(n))
		all.Add(int64(n))
		if s.gate.meter.exhausted(s.gate.rules.Load().bounds) {
			s.cut(allUsed)
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func isTimeout(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout()
}

// reconsider implements flow.
func (s *session) reconsider(r *Rules) {
	if v := r.decide(s.gate.destination(s.to, true)); !v.allowed {
		s.cut("the policy changed: " + v.reason)
	}
}

// cut implements flow.
func (s *session) cut(reason string) {
	s.mu.Lock()
	first := !s.over
	if s.over = true; first {
		s.attempt.Reason = reason
	}
	s.mu.Unlock()
	if first {
		s.outer.Close()
		s.inner.Close()
	}
}

// snapshot implements flow.
func (s *session) snapshot() Attempt {
	s.mu.Lock()
	a := s.attempt
	s.mu.Unlock()
	a.Duration = time.Since(a.Time)
	a.Sent, a.Received = s.sent.Load(), s.received.Load()
	return a
}

func (s *session) log() { s.gate.log.add(s.snapshot()) }
