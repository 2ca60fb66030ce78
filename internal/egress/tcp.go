package egress

import (
	"context"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// connect handles one SYN, in a goroutine of the stack. It answers once the destination has answered the gate.
func (g *gate) connect(r *tcp.ForwarderRequest) {
	id := r.ID()
	to := addressOf(id.LocalAddress, id.LocalPort)
	if !g.active.begin() {
		r.Complete(true)
		return
	}
	defer g.active.work.Done()
	defer g.contain()
	if rules.IsGateway(to.Addr()) && to.Port() == portDNS {
		g.connectDNS(r)
		return
	}
	c := &conn{flow: flow{gate: g, to: to, attempt: Attempt{Time: time.Now(), Protocol: sandbox.ProtocolTCP,
		Address: to.Addr(), Port: to.Port()}}}
	if !c.open(r) {
		return
	}
	c.run()
	c.release()
	c.log()
}

// open decides, dials and accepts. It answers the request in any case.
func (c *conn) open(r *tcp.ForwarderRequest) bool {
	g := c.gate
	policy := g.rules.Load()
	c.inner.buffer = g.meter.bufferSize()
	c.verdict = c.decide(policy, func() (reason string) {
		c.port, reason = g.meter.dial(policy.Bounds, c.to, c.attempt.Time, c.memory())
		return reason
	}, c.release)
	if !c.attempt.Allowed {
		return c.reject(r)
	}
	if !c.accept(r) {
		c.release()
		return false
	}
	c.inspector = newInspector(c)
	if !g.active.admit(c) {
		c.cut(gateClosed)
	} else if now := g.rules.Load(); now != policy {
		c.reconsider(now, policy)
	}
	return true
}

// memory is what the connection may need at most.
func (c *conn) memory() int64 { return int64(connectionMemory + 2*c.inner.buffer) }

func (c *conn) release() { c.gate.meter.hangUp(c.port, c.outer != nil, c.memory()) }

// accept connects both ends, the outer one first.
func (c *conn) accept(r *tcp.ForwarderRequest) bool {
	ctx, cancel := context.WithTimeout(c.gate.ending.ctx, dialTimeout)
	defer cancel()
	outer, err := c.dial(ctx, "tcp")
	if err != nil {
		c.failed(err)
		return c.reject(r)
	}
	c.inner.limitKernel(outer)
	endpoint, failed := r.CreateEndpoint(&c.inner.queue)
	if failed != nil {
		c.attempt.Reason = "the sandbox did not complete the handshake"
		outer.Close()
		return c.reject(r)
	}
	r.Complete(false)
	c.inner.watch(endpoint)
	c.outer = outer
	return true
}

// reject logs the attempt and then answers it with a reset, so that the log has the reason when the sandbox looks for
// it.
func (c *conn) reject(r *tcp.ForwarderRequest) bool {
	c.log()
	r.Complete(true)
	return false
}
