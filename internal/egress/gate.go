package egress

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/fumehood-dev/fumehood/internal/egress/intercept"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	dialTimeout = 10 * time.Second
	maxHalfOpen = 128 // connections that are being dialled or shaking hands
)

const gateClosed = "the gate was closed"

// gate is the outer end of a sandbox's network. It implements sandbox.Passage.
type gate struct {
	*Log
	journal *journal // nil until Keep

	options Options
	rules   atomic.Pointer[rules.Rules]
	pins    pins
	answers answerCache
	meter   *meter

	authority   *sandbox.Authority // nil for rules that intercept nothing
	interceptor *intercept.Server  // nil until the first connection that it serves

	device *device
	stack  *stack.Stack
	active registry
	ending ending
}

// open makes a gate of a device. The gate owns the device, even if open fails.
func (h *Host) open(file *os.File, spec sandbox.Spec, owner string, failed func(any)) (*gate, error) {
	p := spec.Network
	compiled, err := rules.Compile(p)
	if err != nil {
		_ = file.Close() // nothing was written to it
		return nil, err
	}
	g := &gate{options: h.Options, Log: &Log{tally: &h.tally}, authority: p.Authority,
		meter: newMeter(h.budget(), owner, spec.Limits.CPUMillis), ending: newEnding(failed)}
	g.active.flows, g.pins.meter = map[openFlow]struct{}{}, g.meter
	if g.options.Dial == nil {
		g.options.Dial = (&net.Dialer{Control: forbidBroadcast}).DialContext
	}
	if g.options.Resolve == nil {
		g.options.Resolve = g.resolveHost
	}
	g.rules.Store(compiled)
	g.ending.ctx, g.ending.cancel = context.WithCancel(context.Background())
	if g.device, err = newDevice(g, file); err != nil {
		g.ending.cancel()
		g.meter.close()
		_ = file.Close() // nothing was written to it
		return nil, &sandbox.Error{Op: "gate", Err: err}
	}
	if err = g.newStack(g.device); err == nil {
		err = g.serveDNS()
	}
	go g.device.read() // until close
	if err != nil {
		_ = g.Close() // err is the cause
		return nil, &sandbox.Error{Op: "gate", Err: err}
	}
	return g, nil
}

// Current implements sandbox.NetworkLog.
func (g *gate) Current() []Attempt {
	g.active.mu.Lock()
	defer g.active.mu.Unlock()
	list := make([]Attempt, 0, len(g.active.flows))
	for f := range g.active.flows {
		list = append(list, f.snapshot())
	}
	return list
}

// Refusals implements sandbox.NetworkLog. It suggests no rule that the operator's ceiling does not contain.
func (g *gate) Refusals(seq uint64, n int) []Refusal {
	list, policy := g.Log.Refusals(seq, n), g.rules.Load()
	for i := range list {
		one := &list[i]
		if one.Allow == "" || policy.MayList(one.Allow, routeOfAddress) {
			continue
		}
		if one.Allow = ""; one.Reason == rules.NoRule {
			one.Reason = rules.AboveCeiling
		}
	}
	return list
}

// SetPolicy implements sandbox.Passage.
func (g *gate) SetPolicy(p sandbox.NetworkPolicy) (compared time.Duration, err error) {
	r, err := rules.Compile(p)
	if err != nil {
		return 0, err
	}
	g.active.mu.Lock()
	defer g.active.mu.Unlock()
	began := time.Now()
	before := g.rules.Swap(r)
	forgets := r.Forgets(before)
	for f := range g.active.flows {
		f.reconsider(r, before)
		if c, ok := f.(*conn); ok && forgets {
			c.forget()
		}
	}
	return time.Since(began), nil
}

// SetOwner implements sandbox.Passage.
func (g *gate) SetOwner(owner string) { g.meter.setOwner(owner) }

// SetCPU implements sandbox.Passage.
func (g *gate) SetCPU(millis int64) { g.meter.pace.of.setCPU(g.meter.pace, millis) }

// Keep implements sandbox.Passage.
func (g *gate) Keep(dir string) (err error) {
	if g.journal, err = openJournal(g.Log, dir, journalPace); err == nil { // limits of bytes count the time before
		kept := g.Log.Summary()
		g.meter.sent.Add(kept.Sent)
		g.meter.received.Add(kept.Received)
	}
	return err
}

// Close implements sandbox.Passage. It resets all connections, closes the device and waits for everything.
func (g *gate) Close() error {
	err := g.close()
	g.Log.end()
	if g.journal != nil {
		err = errors.Join(err, g.journal.close())
	}
	return err
}

// shut ends all that belongs to the gate. If the gate has failed, some of it may never end, and the rest does.
func (g *gate) shut() error {
	failed := g.hasFailed()
	var cuts sync.WaitGroup
	g.active.mu.Lock()
	g.active.closed = true
	for f := range g.active.flows {
		if failed {
			cuts.Go(func() { f.cut(gateFailed) })
		} else {
			f.cut(gateClosed)
		}
	}
	interceptor := g.interceptor
	g.active.mu.Unlock()
	if failed {
		go func() {
			cuts.Wait()
			g.device.close() // the end of shut reports its error
		}()
	}
	if interceptor != nil {
		interceptor.Close()
	}
	g.ending.cancel()
	g.stack.Close()
	g.waitAborting()
	err := g.device.close()
	g.stack.Wait()
	g.meter.close()
	return err
}

// waitAborting waits for the gate's goroutines. It aborts handshakes that began while the stack was closing: nothing
// would complete them.
func (g *gate) waitAborting() {
	done := make(chan struct{})
	go func() {
		g.active.work.Wait()
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

// add logs an attempt.
func (g *gate) add(a Attempt) {
	g.meter.pace.spend(attemptTime)
	g.Log.add(a)
}

// logDropped logs a packet that the device dropped.
func (g *gate) logDropped(p packet) {
	g.add(Attempt{Time: time.Now(), Protocol: sandbox.ProtocolIP, Address: rules.Canonical(p.to), Reason: p.reason})
}
