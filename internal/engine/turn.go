package engine

import (
	"context"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// enterEarly has Drain wait for an execution that adds packages, as for one that has its slot, and admits its steps meanwhile.
func (x *Execution) enterEarly() error {
	if x.adds.asked == nil || x.asks.Detached {
		return nil
	}
	return x.sandbox.engine.admission.enter(x.await)
}

// await has Drain wait for the execution to end, unless it is detached: such a one outlives the server.
func (x *Execution) await() {
	if !x.awaited && !x.asks.Detached {
		x.sandbox.engine.runs.Add(1)
		x.awaited = true
	}
}

// admit takes a slot. Drain waits for an execution that got one.
func (x *Execution) admit(ctx context.Context) (release func(), err error) {
	e := x.sandbox.engine
	err = e.admission.take(ctx, x.sandbox.owner, x.await, x.awaited)
	if err != nil {
		x.notAwaited()
		return nil, err
	}
	started := time.Now()
	return func() { e.admission.release(x.sandbox.owner, time.Since(started)) }, nil
}

// notAwaited tells Drain that the execution has ended, or never began.
func (x *Execution) notAwaited() {
	if x.awaited {
		x.awaited = false
		x.sandbox.engine.runs.Done()
	}
}

// turned runs the execution. A command has its slot; all else first waits for its turn, its packages and a slot, which release gives back.
func (x *Execution) turned(ctx context.Context, release *func()) (*sandbox.Result, error) {
	if x.context != nil {
		asked := time.Now()
		done, err := x.context.wait(ctx)
		x.timings.Queue = time.Since(asked)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	if x.resumed == nil && (x.context != nil || x.adds.asked != nil) { // one that was resumed has run on meanwhile, and takes no slot
		if err := x.addPackages(ctx); err != nil {
			return nil, err
		}
		asked := time.Now()
		admitted, err := x.admit(ctx)
		x.timings.Queue += time.Since(asked)
		if err != nil {
			return nil, err
		}
		*release = admitted
		if x.context == nil {
			if err := x.beginLate(); err != nil {
				return nil, err
			}
		}
	}
	x.measureBefore()
	return x.perform(ctx)
}

// beginLate begins the time limit of a process that waited for packages, also for the next server.
func (x *Execution) beginLate() error {
	x.beginNow()
	x.logBegan("")
	if x.asks.Detached {
		return x.log.Sync()
	}
	return nil
}
