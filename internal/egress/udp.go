package egress

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	sessionIdle = 60 * time.Second // a session ends after this long without a datagram
	maxSessions = 64
	maxDatagram = 64 << 10
	// routeAge is how long a session may send after the host's route to its destination has changed.
	routeAge = time.Second
)

var datagramBuffers = sync.Pool{New: func() any { return new([maxDatagram]byte) }}

// session is the exchange of datagrams between one port of the sandbox and one destination.
type session struct {
	flow
	inner  *gonet.UDPConn
	outer  net.Conn
	active atomic.Int64 // when the last datagram passed, in Unix nanoseconds
	named  atomic.Bool  // names decide about it: rules.Rules.Names
}

// datagram handles the first datagram of a session, on the device's goroutine. If it returns false, the stack answers
// with "port unreachable".
func (g *gate) datagram(r *udp.ForwarderRequest) bool {
	id := r.ID()
	to := addressOf(id.LocalAddress, id.LocalPort)
	policy := g.rules.Load()
	s := &session{flow: flow{gate: g, to: to, attempt: Attempt{Time: time.Now(), Protocol: sandbox.ProtocolUDP,
		Address: to.Addr(), Port: to.Port()}}}
	v := s.decide(policy, func() string { return g.takeSession(policy.Bounds, s.attempt.Time) }, g.giveSession)
	s.named.Store(policy.Names(v))
	if !s.attempt.Allowed {
		g.add(s.attempt)
		return false
	}
	var queue waiter.Queue
	endpoint, failed := r.CreateEndpoint(&queue)
	if failed != nil {
		g.giveSession()
		return false
	}
	endpoint.SocketOptions().SetReceiveBufferSize(maxDatagram, true)
	s.inner = gonet.NewUDPConn(&queue, endpoint)
	go func() { // takeSession has counted it
		defer g.contain()
		s.run(policy)
	}()
	return true
}

// takeSession claims a session and counts its goroutine, or returns the reason of a refusal.
func (g *gate) takeSession(b rules.Bounds, now time.Time) (reason string) {
	g.active.mu.Lock()
	defer g.active.mu.Unlock()
	switch {
	case g.active.closed:
		return gateClosed
	case g.active.sessions == maxSessions:
		return tooMany
	}
	if reason = g.meter.take(b, now, sessionMemory); reason != "" {
		return reason
	}
	if reason = g.meter.track(now); reason != "" {
		g.meter.release(sessionMemory)
		return reason
	}
	g.active.sessions++
	g.active.work.Add(1)
	return ""
}

func (g *gate) giveSession() {
	g.meter.release(sessionMemory)
	g.active.mu.Lock()
	g.active.sessions--
	g.active.mu.Unlock()
	g.active.work.Done()
}

// run serves the session, which policy has allowed.
func (s *session) run(policy *rules.Rules) {
	g := s.gate
	defer g.giveSession()
	defer s.log()
	defer s.inner.Close()
	ctx, cancel := context.WithTimeout(g.ending.ctx, dialTimeout)
	defer cancel()
	outer, err := s.dial(ctx, "udp")
	if err != nil {
		s.failed(err)
		return
	}
	s.outer = outer
	defer outer.Close()
	if !g.active.admit(s) {
		return
	}
	defer g.active.dismiss(s)
	if now := g.rules.Load(); now != policy {
		s.reconsider(now, policy)
	}
	s.active.Store(time.Now().UnixNano())
	var back sync.WaitGroup
	back.Go(func() {
		defer g.contain()
		s.relay(outer, s.inner, func(b []byte) error {
			if err := s.count(0, len(b)); err != nil {
				return err
			}
			return g.meter.pace.wait(g.ending.ctx) // in the other direction, the device waits
		})
	})
	checked := time.Now()
	s.relay(s.inner, outer, func(b []byte) error {
		if s.named.Load() && sniff.BeginsQUIC(b) { // which would be for any name of the server
			s.refuse()
			return errRefused
		}
		if time.Since(checked) > routeAge { // a datagram takes the route of its time
			checked = time.Now()
			if err := s.checkRoute(); err != nil {
				return err
			}
		}
		return s.count(len(b), 0)
	})
	back.Wait()
}

// relay passes datagrams on until either side ends or has been silent for long. Then it ends the session.
func (s *session) relay(from, to net.Conn, count func(b []byte) error) {
	defer s.cut("")
	b := datagramBuffers.Get().(*[maxDatagram]byte)
	defer datagramBuffers.Put(b)
	for {
		idle := sessionIdle - time.Since(time.Unix(0, s.active.Load()))
		_ = from.SetReadDeadline(time.Now().Add(idle))
		n, err := from.Read(b[:])
		var failed net.Error
		switch {
		case idle > 0 && errors.As(err, &failed) && failed.Timeout():
			continue // the other direction may have been active
		case err != nil:
			return
		}
		s.active.Store(time.Now().UnixNano())
		if err := count(b[:n]); err != nil {
			s.cut(err.Error())
			return
		}
		if err := sendDatagram(to, b[:n]); err != nil {
			return
		}
	}
}

// reconsider implements openFlow.
func (s *session) reconsider(r, _ *rules.Rules) {
	v := r.Decide(s.destination())
	named := r.Names(v)
	switch was := s.named.Swap(named); {
	case !v.Allowed:
		s.cut(policyChanged + v.Reason)
	case named && !was:
		s.cut(policyChanged + notChecked)
	}
}

// refuse ends the session because of QUIC, and logs it as refused.
func (s *session) refuse() {
	s.mu.Lock()
	if !s.ended {
		s.attempt.Allowed, s.attempt.Rule = false, ""
	}
	s.mu.Unlock()
	s.cut(rules.QUIC)
}

// cut implements openFlow.
func (s *session) cut(reason string) {
	if s.end(reason) {
		s.outer.Close()
		s.inner.Close()
	}
}
