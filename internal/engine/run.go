package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Run creates a sandbox, executes one request in it, and closes it. The box is closed off the answer's path.
//
// When ctx ends, the execution is ended at once and the result says StatusCanceled, also for a run that still waits for a slot;
// such a one never starts. An error means that Glovebox failed or refused; then no code of the request has run to its end:
// Invalid and TooLarge requests, Busy (with RetryAfter), Unavailable while draining, Unsupported where the backend or the root
// cannot do what was asked. An error of Run.Deliver is the exception: it comes after the end.
//
// Request.Output is called from one goroutine at a time, and never after Run has returned. It must return when ctx ends.
func (e *Engine) Run(ctx context.Context, run Run) (result *sandbox.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, e.panicked("run", p)
		}
		if err != nil {
			e.counts.refused(err)
			return
		}
		e.counts.ended(result)
	}()
	p, err := e.resolve(run)
	if err == nil {
		err = e.choose(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	return e.runPlan(ctx, p)
}

// errStopped is why the runs in progress are canceled when the engine closes.
var errStopped = errors.New("the server is stopping")

func (e *Engine) runPlan(ctx context.Context, p *plan) (*sandbox.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.stop, func() { cancel(errStopped) })()

	asked := time.Now()
	admitted := false
	err := e.admission.acquire(ctx, p.owner, func() {
		admitted = true
		e.runs.Add(1)
	})
	if admitted {
		defer e.runs.Done()
	}
	waited := time.Since(asked)
	if err != nil {
		if over(ctx) {
			return e.delivered(p, canceled(p, waited))
		}
		return nil, err
	}
	// The slot is free when both the box and the answer have been seen off.
	var holders atomic.Int32
	holders.Store(2)
	started := time.Now()
	leave := func() {
		if holders.Add(-1) == 0 {
			e.admission.release(p.owner, time.Since(started))
		}
	}
	defer leave() // also when something panics
	result, err := e.oneShot(ctx, p, leave)
	if err != nil {
		if over(ctx) {
			return e.delivered(p, canceled(p, waited))
		}
		return nil, err
	}
	result.Timings.Queue = waited
	return e.delivered(p, result)
}

// delivered hands the result to whoever is to have it before the slot is given back.
func (e *Engine) delivered(p *plan, result *sandbox.Result) (*sandbox.Result, error) {
	if p.deliver == nil {
		return result, nil
	}
	if err := p.deliver(result); err != nil {
		e.counts.ended(result) // it did run, beside being refused
		return nil, err
	}
	return result, nil
}

// oneShot creates a sandbox, executes in it and sees the box off, after which it calls release.
func (e *Engine) oneShot(ctx context.Context, p *plan, release func()) (*sandbox.Result, error) {
	var l *live
	started := time.Now()
	defer func() { // also when something panics
		if l == nil {
			release()
			return
		}
		e.closers.retire(l, release)
	}()
	var err error
	if l, err = e.create(ctx, p); err != nil {
		return nil, fmt.Errorf("create the sandbox: %w", err)
	}
	created := time.Since(started)
	result, err := l.execute(ctx, p)
	if errors.Is(err, sandbox.ErrEntered) { // nothing has run; another sandbox will do
		spoiled := l
		l = nil
		e.closers.retire(spoiled, func() {})
		e.log.Warn("a fork of an interpreter was given up together with its sandbox", "sandbox", spoiled.id, "err", err)
		p.plain = true
		if l, err = e.create(ctx, p); err != nil {
			return nil, fmt.Errorf("create the sandbox: %w", err)
		}
		created = time.Since(started)
		result, err = l.execute(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	result.Timings.Create = created
	return result, nil
}

// over says whether ctx has ended, or its deadline has passed: package net may find that out before the context's own timer.
func over(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

// canceled is the end of a run whose caller went away before anything ran.
func canceled(p *plan, waited time.Duration) *sandbox.Result {
	return &sandbox.Result{
		ID:        p.id,
		Status:    sandbox.StatusCanceled,
		ExitCode:  -1,
		Requested: p.Spec,
		Asked:     p.asked,
		Timings:   sandbox.Timings{Queue: waited},
		Hints:     []sandbox.Hint{{Code: sandbox.HintNotStarted}},
	}
}

// panicked logs a contained defect with its stack and returns what the caller may know of it.
func (e *Engine) panicked(op string, p any) error {
	e.counts.panicked()
	e.log.Error("contained a panic", "op", op, "panic", p, "stack", string(debug.Stack()))
	return &sandbox.Error{Kind: sandbox.Internal, Op: op, Msg: fmt.Sprint("panic: ", p)}
}
