package egress

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// gateFailed is the reason of the attempt that a gate logs when it fails.
const gateFailed = "the gate failed, and with it the network of this sandbox"

// failTime is how long Close waits for a gate that has failed. A panic may leave a lock of the stack held.
const failTime = 5 * time.Second

// ending is how a gate ends.
type ending struct {
	report func(p any)        // receives a panic
	ctx    context.Context    // ends with the gate
	cancel context.CancelFunc // of ctx

	fail   sync.Once
	failed chan struct{} // closed by a panic
	close  sync.Once
	closed chan struct{} // closed once all has ended
	err    error         // of closing
}

func newEnding(report func(p any)) ending {
	return ending{report: report, failed: make(chan struct{}), closed: make(chan struct{})}
}

// start runs f in a goroutine of the gate, unless the gate is closed. All goroutines of the gate begin here, or defer
// contain.
func (g *gate) start(f func()) bool {
	if !g.active.begin() {
		return false
	}
	go func() {
		defer g.active.work.Done()
		defer g.contain()
		f()
	}()
	return true
}

// contain must be deferred. A panic ends the gate of this sandbox, and not the server. The goroutines that gVisor's
// stack starts for TCP segments are beyond its reach, except for what they call here.
func (g *gate) contain() {
	if p := recover(); p != nil {
		g.fail(p)
	}
}

// fail ends the gate after a panic.
func (g *gate) fail(p any) {
	g.ending.fail.Do(func() {
		close(g.ending.failed)
		g.ending.report(p)
		g.Log.add(Attempt{Time: time.Now(), Protocol: sandbox.ProtocolIP, Reason: gateFailed})
	})
	g.beginClose()
}

func (g *gate) hasFailed() bool {
	select {
	case <-g.ending.failed:
		return true
	default:
		return false
	}
}

// close closes the gate, and waits for all that belongs to it. It returns an error if the gate has failed and does not
// end.
func (g *gate) close() error {
	g.beginClose()
	select {
	case <-g.ending.closed:
		return g.ending.err
	case <-g.ending.failed:
	}
	select {
	case <-g.ending.closed:
		return g.ending.err
	case <-time.After(failTime):
		return &sandbox.Error{Op: "gate", Msg: "it failed, and did not end"}
	}
}

func (g *gate) beginClose() {
	g.ending.close.Do(func() {
		go func() {
			defer close(g.ending.closed)
			defer func() {
				if p := recover(); p != nil {
					g.ending.err = &sandbox.Error{Op: "close the gate", Msg: fmt.Sprint("panic: ", p)}
					g.ending.fail.Do(func() { close(g.ending.failed); g.ending.report(p) })
				}
			}()
			g.ending.err = g.shut()
		}()
	})
}

// clock is the clock of the stack. Its timers run code of the stack.
type clock struct {
	tcpip.Clock
	gate *gate
}

func (c clock) AfterFunc(d time.Duration, f func()) tcpip.Timer {
	return c.Clock.AfterFunc(d, func() {
		defer c.gate.contain()
		f()
	})
}
