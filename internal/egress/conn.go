package egress

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
)

// lingerTimeout is how long a connection whose ends are both closed may take to hand its last bytes to the sandbox.
const lingerTimeout = 5 * time.Second

// conn is one connection through the gate.
type conn struct {
	gate      *Gate
	to        netip.AddrPort
	inner     stream
	outer     net.Conn
	raw       syscall.RawConn // of outer; nil if it has none
	inspector *inspector

	sent, received atomic.Int64

	mu      sync.Mutex
	attempt Attempt
	verdict verdict
	over    bool // it was cut, or has ended
}

func (c *conn) setOuter(outer net.Conn) {
	c.outer = outer
	if tcp, ok := outer.(*net.TCPConn); ok {
		c.raw, _ = tcp.SyscallConn()
	}
}

// run copies in both directions until both have ended.
func (c *conn) run() {
	var down sync.WaitGroup
	down.Go(func() {
		if err := c.fromServer(); errors.Is(err, errOpens) {
			return
		} else if err != nil {
			c.cut(err.Error())
		} else {
			c.inner.endpoint.Shutdown(tcpip.ShutdownWrite)
		}
	})
	err := c.fromSandbox()
	if errors.Is(err, errOpens) {
		err = c.serve(c.inspector.first, c.inspector.said())
	}
	if err != nil {
		c.cut(err.Error())
	} else if half, ok := c.outer.(halfCloser); ok {
		_ = half.CloseWrite() // it fails on a connection that has ended
	}
	down.Wait()
	c.finish()
}

// finish closes both ends. The stack still sends what the sandbox has not read, for a while.
func (c *conn) finish() {
	c.inspector.close()
	c.gate.dismiss(c)
	c.mu.Lock()
	cut := c.over
	c.over = true
	c.mu.Unlock()
	c.outer.Close()
	c.inner.endpoint.Close()
	if cut {
		return
	}
	expired := time.NewTimer(lingerTimeout)
	defer expired.Stop()
	for !c.inner.ended() {
		select {
		case <-c.inner.readable:
		case <-expired.C:
			c.inner.endpoint.Abort()
			return
		case <-c.gate.ctx.Done():
			return
		}
	}
}

// fromSandbox copies what the sandbox sends, as far as the inspector agrees.
func (c *conn) fromSandbox() error {
	for {
		b := copyBuffers.Get().(*[copySize]byte)
		n, err := c.inner.read(b[:])
		if n > 0 {
			if err = c.spend(&c.sent, &c.gate.meter.sent, n); err == nil {
				err = c.inspector.fromSandbox(b[:n])
			}
		}
		copyBuffers.Put(b)
		switch {
		case errors.Is(err, io.EOF):
			return c.inspector.sandboxEnds()
		case err != nil:
			return err
		case n == 0:
			<-c.inner.readable
		}
	}
}

// fromServer copies what the server sends, once the inspector lets it speak.
func (c *conn) fromServer() error {
	if !c.inspector.mayAnswer() {
		return errReset // without this error the sandbox would see an orderly end
	}
	if c.inspector.opens {
		return errOpens
	}
	take := func(b []byte) error {
		if err := c.spend(&c.received, &c.gate.meter.received, len(b)); err != nil {
			return err
		}
		c.inspector.fromServer(b)
		return c.inner.write(b)
	}
	var err error
	if c.raw != nil {
		err = copyRaw(c.raw, take)
	} else {
		err = copyPlain(c.outer, take)
	}
	c.inspector.serverEnds()
	return err
}

// copyPlain reads until the end.
func copyPlain(r io.Reader, take func([]byte) error) error {
	b := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(b)
	for {
		n, err := r.Read(b[:])
		if n > 0 {
			if err := take(b[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errReset
		}
	}
}

// spend counts bytes, and fails once the gate has none left.
func (c *conn) spend(own, all *atomic.Int64, n int) error {
	own.Add(int64(n))
	all.Add(int64(n))
	if b := c.gate.rules.Load().bounds; b.sent > 0 && c.gate.meter.sent.Load() > b.sent ||
		b.received > 0 && c.gate.meter.received.Load() > b.received {
		return refusal(allUsed)
	}
	return nil
}

// refusal is an error that ends a connection because of the policy.
type refusal string

func (r refusal) Error() string { return string(r) }

// cut resets both ends. The first reason counts.
func (c *conn) cut(reason string) {
	c.mu.Lock()
	first := !c.over
	if c.over = true; first {
		c.attempt.Reason = reason
	}
	c.mu.Unlock()
	if !first {
		return
	}
	c.inspector.close()
	if tcp, ok := c.outer.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset, so that the server does not take half a request for a whole one
	}
	c.inner.endpoint.Abort() // first: closing waits for a write to the sandbox that is under way
	c.outer.Close()
}

// send passes bytes on to the server.
func (c *conn) send(b []byte) error {
	if _, err := c.outer.Write(b); err != nil {
		return errReset
	}
	return nil
}

// refuse ends the connection because of what it said of itself, and logs it as refused.
func (c *conn) refuse(v verdict) {
	c.mu.Lock()
	if !c.over {
		c.attempt.Allowed, c.attempt.Rule = false, v.rule
		if v.name != "" {
			c.attempt.Name = v.name
		}
	}
	c.mu.Unlock()
	c.cut(v.reason)
}

// reconsider implements flow.
func (c *conn) reconsider(r *Rules) {
	name, d := c.inspector.said(), c.gate.destination(c.to, false)
	v := r.decide(d)
	if v.allowed && name != "" {
		v = r.agrees(v, name, d)
	}
	switch {
	case !v.allowed:
		c.cut("the policy changed: " + v.reason)
	case name != "" && !c.inspector.isOpened() && r.opensAt(name, c.to.Port()):
		c.cut("the policy changed: its requests are read now")
	case v.byName && !c.verdict.byName, !c.inspector.holds && r.deny.namesAny() && c.inspector.isHTTP():
		c.cut("the policy changed: what the connection says was not checked")
	}
}

// snapshot implements flow.
func (c *conn) snapshot() Attempt {
	c.mu.Lock()
	a := c.attempt
	c.mu.Unlock()
	a.Duration = time.Since(a.Time)
	a.Sent, a.Received = c.sent.Load(), c.received.Load()
	return a
}

// log writes the attempt once it is over.
func (c *conn) log() { c.gate.log.add(c.snapshot()) }
