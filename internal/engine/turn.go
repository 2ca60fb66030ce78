package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cputime"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// RunRequest requests a run in a living sandbox: code in a context, or a command, a file, or code of a language without
// contexts in a new process.
type RunRequest struct {
	ID      sandbox.ID      // "" is a new one
	Context string          // for code; "" is DefaultContext. A default context is made by its first run
	Request sandbox.Request // Code must come without Args and Stdin: a context has neither

	// Background continues without its caller. Otherwise the end of ctx cancels the run.
	Background bool
	// FreesSlot gives the slot of a background run to the next run once it has begun, as one without a time limit does.
	FreesSlot bool
	// Interactive keeps stdin of a command open for Run.Input.
	Interactive bool
	// Terminal gives a command a terminal of this size, which Run.Input types into. Its output is that of Stdout.
	Terminal *TerminalSize
	// Deliver is that of Engine.Run: it receives the result while the run still holds its slot, and Wait returns its
	// error.
	Deliver func(*sandbox.Result) error `json:"-"`
}

// Detach requests a run in the background, which has no time limit unless the request names one.
func (r *RunRequest) Detach() {
	r.Background, r.Request.Timeout = true, cmp.Or(r.Request.Timeout, sandbox.NoTimeout)
}

// slot is the place of a run among those that run at the same time, and in its context. The goroutine of the run owns
// it.
type slot struct {
	awaited bool   // Drain waits for the run
	counted bool   // it has a place among the runs that have not ended
	release func() // nil without a slot
	turn    *turn  // in its context, from when it is accepted; nil without
	queued  bool   // it counts among those that wait for a context or packages

	labels context.Context // of its client; nil after a restart
}

// enterEarly makes Drain wait for a run that adds packages, as for one that has its slot, and admits its steps
// meanwhile.
func (x *Run) enterEarly() error {
	if x.adding.asked == nil || x.req.Background {
		return nil
	}
	return x.sandbox.engine.admission.enter(x.await)
}

// await makes Drain wait for the run to end, unless it runs in the background: such a one outlives the server.
func (x *Run) await() {
	if !x.awaited && !x.req.Background {
		x.sandbox.engine.runs.Add(1)
		x.awaited = true
	}
}

// admit takes a slot. Drain waits for a run that got one.
func (x *Run) admit(ctx context.Context) (release func(), err error) {
	e := x.sandbox.engine
	err = e.admission.take(ctx, x.sandbox.owner, x.await, x.awaited)
	if err != nil {
		x.stopAwaiting()
		return nil, err
	}
	started, drop := time.Now(), x.sandbox.holdWeight()
	return func() {
		drop()
		e.admission.release(x.sandbox.owner, time.Since(started))
	}, nil
}

// stopAwaiting ends the wait of Drain for the run.
func (x *Run) stopAwaiting() {
	if x.awaited {
		x.awaited = false
		x.sandbox.engine.runs.Done()
	}
}

// freeSlot releases the slot of the run, if it has one.
func (x *Run) freeSlot() {
	if release := x.release; release != nil {
		x.release = nil
		release()
	}
}

// endless reports whether the run has no time limit.
func (x *Run) endless() bool { return x.Spec.Limits.Timeout == sandbox.NoTimeout }

// freeBegun releases the slot of a background run that has begun, if the run requests it or has no time limit: it would
// hold the slot until its sandbox ends.
func (x *Run) freeBegun() {
	if x.slotless() {
		x.freeSlot()
	}
}

// slotless reports whether the run holds no slot once it has begun. One whose caller waits keeps its slot: it has its
// whole output in memory, its values, and a list of files.
func (x *Run) slotless() bool { return x.req.Background && (x.endless() || x.req.FreesSlot) }

// label marks the caller as working for the client until back is called, if no slot bounds the work for the run.
func (x *Run) label() (back func()) {
	if !x.slotless() || x.labels == nil {
		return func() {}
	}
	return cputime.Within(x.labels)
}

// runInTurn runs the run. A command has its slot; every other run first waits for its turn, its packages and a slot.
func (x *Run) runInTurn(ctx context.Context) (*sandbox.Result, error) {
	if x.context != nil {
		asked := time.Now()
		err := x.context.await(ctx, x.turn)
		x.leaveQueue()
		x.timings.Queue = time.Since(asked)
		if err != nil {
			return nil, err
		}
	}
	if x.resumed == nil && x.release == nil { // one that was resumed has run on meanwhile, and takes no slot
		back := cputime.Within(ctx) // it has no slot yet
		err := x.addPackages(ctx)
		if back(); err != nil {
			return nil, x.leaveToNext(ctx, err)
		}
		asked := time.Now()
		admitted, err := x.admit(ctx)
		x.timings.Queue += time.Since(asked)
		if err != nil {
			return nil, x.leaveToNext(ctx, err)
		}
		x.release = admitted
		if x.context == nil {
			if err := x.beginAfterPackages(); err != nil {
				return nil, err
			}
		}
	}
	x.measureBefore()
	return x.perform(ctx)
}

// leaveToNext leaves a background run that a stopping server refuses to the next server, which starts it: it waits
// until this server has left the sandbox. It returns the refusal.
func (x *Run) leaveToNext(ctx context.Context, refusal error) error {
	if x.req.Background && x.sandbox.engine.admission.isDraining() {
		x.leaveTurn()
		<-ctx.Done()
	}
	return refusal
}

// joinContext gives the run its place among those of its context: they run in the order in which they were accepted.
func (x *Run) joinContext() {
	if x.context != nil && x.turn == nil {
		x.turn = x.context.turns.join()
	}
}

// joinQueue counts a run that waits for its context or for packages, when it is accepted: one that was accepted is not
// refused later. The caller holds the sandbox's mu.
func (x *Run) joinQueue(most int) error {
	s := x.sandbox
	if x.context == nil && x.adding.asked == nil || x.context != nil && x.turn.isReady() {
		return nil
	}
	if s.runs.waiting >= most {
		return s.queueFull()
	}
	s.runs.waiting++
	x.queued = true
	return nil
}

// leaveQueue ends what joinQueue began.
func (x *Run) leaveQueue() {
	if x.queued {
		x.queued = false
		x.sandbox.addWaiting(-1)
	}
}

// leaveTurn gives the turn back, if the run has it: once its end is in the log, so that the log of at most one run of a
// context has a beginning without an end.
func (x *Run) leaveTurn() {
	if t := x.turn; t != nil {
		x.turn = nil
		t.leave()
	}
}

// beginAfterPackages begins the time limit of a process that waited for packages, also for the next server.
func (x *Run) beginAfterPackages() error {
	x.beginNow()
	if x.log.began.Load() > 0 { // an earlier server was about to start it
		return nil
	}
	x.logBegan(begun{})
	return x.log.Sync()
}
