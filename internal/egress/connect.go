package egress

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// connect handles one SYN, in a goroutine of the stack's. The sandbox gets its answer when the destination has answered the gate.
func (g *Gate) connect(r *tcp.ForwarderRequest) {
	id := r.ID()
	to := addressOf(id.LocalAddress, id.LocalPort)
	if !g.begin() {
		r.Complete(true)
		return
	}
	defer g.work.Done()
	if isGateway(to.Addr()) && to.Port() == portDNS {
		g.connectDNS(r)
		return
	}
	c := &conn{gate: g, to: to, attempt: Attempt{Time: time.Now(), Protocol: sandbox.ProtocolTCP, Address: to.Addr(), Port: to.Port()}}
	if !c.open(r, to) {
		return
	}
	c.run()
	g.meter.release()
	c.log()
}

// open decides, dials and accepts. It answers the request in any case.
func (c *conn) open(r *tcp.ForwarderRequest, to netip.AddrPort) bool {
	g := c.gate
	rules := g.rules.Load()
	c.verdict = rules.decide(g.destination(to, false))
	c.attempt.Name, c.attempt.Rule, c.attempt.Reason = c.verdict.name, c.verdict.rule, c.verdict.reason
	if c.verdict.allowed {
		c.attempt.Reason = g.meter.take(rules.bounds, c.attempt.Time)
	}
	if c.attempt.Reason != "" {
		return c.reject(r)
	}
	c.attempt.Allowed = true
	if !c.accept(r, to) {
		g.meter.release()
		return false
	}
	c.inspector = newInspector(c)
	if !g.admit(c) {
		c.cut(gateClosed)
	} else if now := g.rules.Load(); now != rules {
		c.reconsider(now)
	}
	return true
}

// accept connects both ends, the outer one first.
func (c *conn) accept(r *tcp.ForwarderRequest, to netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(c.gate.ctx, dialTimeout)
	defer cancel()
	outer, err := c.gate.dial(ctx, "tcp", to.String())
	if err != nil {
		c.attempt.Reason = dialError(err)
		return c.reject(r)
	}
	endpoint, failed := r.CreateEndpoint(&c.inner.queue)
	if failed != nil {
		c.attempt.Reason = "the sandbox did not complete the handshake"
		outer.Close()
		return c.reject(r)
	}
	r.Complete(false)
	c.inner.watch(endpoint)
	c.setOuter(outer)
	return true
}

// reject logs the attempt and answers it with a reset, in this order: who sees the answer finds the reason.
func (c *conn) reject(r *tcp.ForwarderRequest) bool {
	c.log()
	r.Complete(true)
	return false
}

// dialError says why a destination cannot be reached, in words without addresses of the host.
func dialError(err error) string {
	var failed syscall.Errno
	switch {
	case errors.As(err, &failed):
		return failed.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "it did not answer in time"
	}
	return "it cannot be reached"
}

// halfCloser is a connection whose halves can be closed alone.
type halfCloser interface{ CloseWrite() error }
