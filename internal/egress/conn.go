package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/egress/intercept"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// lingerTimeout is how long a connection whose ends are both closed may take to hand its last bytes to the sandbox.
const lingerTimeout = 5 * time.Second

// policyChanged begins the reason of a flow that ends because of SetPolicy.
const policyChanged = "the policy changed: "

// notChecked is why a flow ends that new rules allow by its name, and earlier ones without one.
const notChecked = "the names that it stated were not checked"

// conn is one TCP connection through the gate.
type conn struct {
	flow
	verdict   rules.Verdict
	port      int // its slot
	inner     stream
	outer     net.Conn
	inspector *inspector
	answered  atomic.Bool // the server's side has ended, or that of the gate where TLS ends in it
}

// run copies in both directions until both have ended.
func (c *conn) run() {
	down := make(chan struct{})
	go func() { // until down is closed
		defer close(down)
		defer c.gate.contain()
		switch err := c.fromServer(); {
		case errors.Is(err, errIntercept):
		case err != nil:
			c.cut(err.Error())
		default:
			c.answered.Store(true)
			c.inner.endpoint.Shutdown(tcpip.ShutdownWrite)
		}
	}()
	err := c.fromSandbox()
	if errors.Is(err, errIntercept) {
		err = c.intercept()
	}
	if err != nil {
		c.cut(err.Error())
	} else if half, ok := c.outer.(duplex.Conn); ok {
		_ = half.CloseWrite() // it fails on a connection that has ended
		c.awaitAnswer(down)
	}
	<-down
	c.finish()
}

// awaitAnswer waits until the server has ended its side too. It ends a connection whose program has closed the socket
// for good: else a server that never answers would hold it until the sandbox ends.
func (c *conn) awaitAnswer(down <-chan struct{}) {
	c.inner.probe()
	for {
		select {
		case <-down:
			return
		case <-c.inner.readable:
			if c.closedForGood() {
				c.cut(errReset.Error())
				return
			}
		}
	}
}

// closedForGood reports whether the stack is done with the connection, and only because of the sandbox.
func (c *conn) closedForGood() bool { return c.inner.ended() && !c.answered.Load() }

// finish closes both ends. For a while the stack still sends the bytes that the sandbox has not read.
func (c *conn) finish() {
	c.inspector.close()
	c.gate.active.dismiss(c)
	orderly := c.end("")
	c.outer.Close()
	c.inner.endpoint.Close()
	if !orderly {
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
		case <-c.gate.ending.ctx.Done():
			return
		}
	}
}

// fromSandbox copies the bytes that the sandbox sends and the inspector passes.
func (c *conn) fromSandbox() error {
	for {
		b := copyBuffers.Get().(*[copySize]byte)
		n, err := c.inner.read(b[:])
		if n > 0 {
			if err = c.count(n, 0); err == nil {
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

// fromServer copies the bytes that the server sends, once the inspector lets it speak.
func (c *conn) fromServer() error {
	if !c.inspector.waitServer() {
		return errReset // without this error the sandbox would see an orderly end
	}
	if c.inspector.intercepts {
		return errIntercept
	}
	defer c.inspector.answersEnd()
	var refused error
	err := copyRaw(c.inspector.ctx, c.gate.meter.pace, c.outer, func(b []byte) error {
		if err := c.count(0, len(b)); err != nil {
			return err
		}
		if refused = c.inspector.fromServer(b); refused != nil {
			return refused
		}
		return c.inner.write(b)
	})
	if refused != nil {
		c.refuse(rules.Verdict{Reason: refused.Error()})
	}
	return err
}

// maxStalls is how often in a row a server may take no bytes for probeAfter, once the program has closed its socket.
const maxStalls = 3

// send passes bytes on to the server. While the server does not read, it looks whether the program still has a socket.
// If the server has ended its side before, the program may have ended in order, and the server may only be slow.
func (c *conn) send(b []byte) error {
	for stalls := 0; ; {
		_ = c.outer.SetWriteDeadline(time.Now().Add(probeAfter)) // it fails on a connection that has ended
		n, err := c.outer.Write(b)
		if stalls++; n > 0 || !c.inner.ended() {
			stalls = 0
		}
		switch b = b[n:]; {
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || c.closedForGood() || stalls == maxStalls:
			return errReset
		}
		c.inner.probe()
	}
}

// cut implements openFlow. It resets both ends.
func (c *conn) cut(reason string) {
	if !c.end(reason) {
		return
	}
	c.inspector.close()
	if tcp, ok := c.outer.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset, so that the server does not take half a request for a whole one
	}
	c.inner.endpoint.Abort() // first, as closing waits for a pending write to the sandbox
	c.outer.Close()
}

// refuse ends the connection because of the name that it states, and logs it as refused.
func (c *conn) refuse(v rules.Verdict) {
	c.mu.Lock()
	if !c.ended {
		c.attempt.Allowed, c.attempt.Rule = false, v.Rule
		if v.Name != "" {
			c.attempt.Name = v.Name
		}
	}
	c.mu.Unlock()
	c.cut(v.Reason)
}

// reconsider implements openFlow.
func (c *conn) reconsider(r, before *rules.Rules) {
	name, intercepted, http := c.inspector.state()
	names := append(c.inspector.waiting(), name)
	v, hides := c.checkNames(r, names), c.inspector.hide(r)
	reads := func(name string) bool { return name != "" && r.Intercepts(name, c.to.Port()) }
	switch {
	case !v.Allowed:
		c.cut(policyChanged + v.Reason)
	case !intercepted && slices.ContainsFunc(names, reads):
		c.cut(policyChanged + "its requests are read now")
	case hides:
		c.cut(policyChanged + "values are removed from its answers now")
	case intercepted && r.Withdraws(before, name, c.to.Port()): // from requests that have not been sent
		c.cut(policyChanged + "a secret no longer goes there")
	case v.ByName && !c.verdict.ByName, !c.inspector.enforces && r.DeniesNames() && (http || name == ""),
		v.ByName && name == "" && !c.inspector.strict && c.mustState(r):
		c.cut(policyChanged + notChecked)
	}
}

// checkNames has rules check names that the connection stated. The verdict is about the last one, or a refusal.
func (c *conn) checkNames(r *rules.Rules, names []string) (v rules.Verdict) {
	to := c.destination()
	for _, name := range names {
		if v = r.CheckName(to, name); !v.Allowed {
			break
		}
	}
	return v
}

// mustState reports whether the connection must state a name if names allow it: at the ports of the web, and at those
// where the gate reads the requests to a name of its address, whose server could answer in other protocols, too.
func (c *conn) mustState(r *rules.Rules) bool {
	port := c.to.Port()
	return port == 80 || port == 443 ||
		slices.ContainsFunc(c.names, func(name string) bool { return r.Intercepts(name, port) })
}

// forget ends a connection from whose answers values are or were removed, once the rules hide fewer of them: its
// requests may have carried one of the others.
func (c *conn) forget() {
	if c.inspector.hasHidden() {
		c.cut(policyChanged + "an earlier value is no longer removed from its answers")
	}
}

// intercept ends the connection's TLS in the gate, until the connection ends.
func (c *conn) intercept() error {
	s, err := c.gate.interceptorServer()
	if err != nil {
		return err
	}
	if reason := c.gate.meter.reserve(interceptMemory); reason != "" {
		c.refuse(rules.Verdict{Rule: c.verdict.Rule, Reason: reason})
		return errRefused
	}
	defer c.gate.meter.unreserve(interceptMemory)
	c.gate.meter.pace.spend(handshakeTime)
	name, _, _ := c.inspector.state()
	inner := &innerConn{gonet.NewTCPConn(&c.inner.queue, c.inner.endpoint), c}
	var used atomic.Bool // outer
	served := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { // net/http does not read while it waits for the server's half of a WebSocket
		defer c.gate.contain()
		c.awaitAnswer(served)
	})
	s.Serve(c.inspector.ctx, &intercept.Conn{
		Conn: &duplex.Buffered{Conn: inner, First: io.MultiReader(bytes.NewReader(c.inspector.first), inner)},
		Name: name,
		To:   c.to,
		Policy: func() (*rules.Rules, rules.Destination) {
			return c.gate.rules.Load(), c.destination()
		},
		Dial: func(ctx context.Context) (net.Conn, error) {
			if used.CompareAndSwap(false, true) {
				return &serverConn{Conn: c.outer, conn: c, release: func() {}}, nil
			}
			return c.dialAgain(ctx)
		},
	})
	c.answered.Store(true)
	close(served)
	watch.Wait()
	return nil
}

// innerConn is the sandbox's end of a connection whose TLS ends in the gate.
type innerConn struct {
	*gonet.TCPConn
	conn *conn
}

func (c *innerConn) Write(b []byte) (int, error) {
	c.conn.inner.boundPieces(len(b))
	return c.TCPConn.Write(b)
}

// CloseWrite ends the gate's side.
func (c *innerConn) CloseWrite() error {
	c.conn.answered.Store(true)
	return c.TCPConn.CloseWrite()
}

// interceptorServer returns the gate's server for intercepted connections. The first call makes it.
func (g *gate) interceptorServer() (*intercept.Server, error) {
	g.active.mu.Lock()
	defer g.active.mu.Unlock()
	switch {
	case g.active.closed:
		return nil, errReset
	case g.interceptor != nil:
		return g.interceptor, nil
	case g.authority == nil:
		return nil, errors.New("the sandbox was created without TLS inspection")
	}
	log := func(a Attempt) {
		a.Method, a.Path = clip(a.Method, maxMethodSize), clip(a.Path, maxPath)
		g.add(a)
	}
	s, err := intercept.NewServer(intercept.Config{Authority: g.authority, Roots: g.options.Roots, Log: log,
		Misplaced: g.misplace, Spend: g.meter.pace.spend, Wait: g.meter.pace.wait,
		Begin: g.beginRequest, End: g.active.work.Done, Reserve: g.meter.reserve, Release: g.meter.unreserve,
		Failed: g.fail})
	if err == nil {
		g.interceptor = s
		g.active.work.Go(func() {
			defer g.contain()
			s.Run()
		})
	}
	return s, err
}

func (g *gate) beginRequest() bool {
	g.meter.pace.spend(requestTime)
	return g.active.begin()
}

// dialAgain connects to the server once more: the first connection has ended, or a server of HTTP/1 gets several
// requests at once.
func (c *conn) dialAgain(ctx context.Context) (net.Conn, error) {
	g := c.gate
	if !g.active.begin() {
		return nil, errReset
	}
	defer g.active.work.Done()
	port, reason := g.meter.dial(g.rules.Load().Bounds, c.to, time.Now(), serverMemory)
	if reason != "" {
		return nil, rules.Refusal(reason)
	}
	g.meter.pace.spend(handshakeTime / 2) // with the server
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	outer, err := c.dial(ctx, "tcp")
	if err != nil {
		g.meter.hangUp(port, false, serverMemory)
		return nil, err
	}
	release := func() { g.meter.hangUp(port, true, serverMemory) }
	return &serverConn{Conn: outer, conn: c, release: release}, nil
}

// serverConn is a connection to a server, whose bytes count as those of the sandbox's connection.
type serverConn struct {
	net.Conn
	conn    *conn
	release func()
	closing sync.Once
}

func (s *serverConn) Read(b []byte) (int, error) {
	if err := s.conn.gate.meter.pace.wait(s.conn.inspector.ctx); err != nil {
		return 0, err
	}
	n, err := s.Conn.Read(b)
	if used := s.conn.count(0, n); used != nil {
		s.conn.cut(used.Error())
		return n, used
	}
	return n, err
}

func (s *serverConn) Write(b []byte) (int, error) {
	if used := s.conn.count(len(b), 0); used != nil {
		s.conn.cut(used.Error())
		return 0, used
	}
	return s.Conn.Write(b)
}

// Close closes the connection once.
func (s *serverConn) Close() (err error) {
	s.closing.Do(func() {
		err = s.Conn.Close()
		s.release()
	})
	return err
}
