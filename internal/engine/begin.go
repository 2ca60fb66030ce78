package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// enterRun enters a run, which the caller must carry out.
func (s *Sandbox) enterRun(ctx context.Context, req RunRequest) (x *Run, carryOut func(), err error) {
	x, carryOut, err = s.tryEnterRun(ctx, req)
	if err != nil {
		o := s.observation(RunRefused)
		o.Run, o.request, o.Err = req.ID, &req.Request, err
		s.engine.observe(o)
	}
	return x, carryOut, err
}

// tryEnterRun is enterRun without a report of a refusal.
func (s *Sandbox) tryEnterRun(ctx context.Context, req RunRequest) (x *Run, carryOut func(), err error) {
	if err := s.Ended(); err != nil {
		return nil, nil, err
	}
	x, err = s.plan(ctx, req)
	if err == nil && !x.forbidden() {
		err = x.planPackages()
	}
	if err != nil {
		return nil, nil, err
	}
	if x.context != nil || x.adding.asked != nil { // its goroutine waits for them, and then for a slot
		if err = x.enterEarly(); err == nil {
			carryOut, err = x.begin(ctx)
		}
		if err != nil {
			x.stopAwaiting()
			return nil, nil, err
		}
		return x, carryOut, nil
	}
	asked := time.Now()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.life, stop)()
	release, err := x.admit(waiting)
	if err != nil {
		if ended := s.Ended(); ended != nil {
			return nil, nil, ended
		}
		return nil, nil, err
	}
	x.timings.Queue = time.Since(asked)
	x.release = release
	if carryOut, err = x.begin(ctx); err != nil {
		x.freeSlot()
		x.stopAwaiting()
		return nil, nil, err
	}
	return x, carryOut, nil
}

// begin enters the run. The caller starts carryOut, which releases its slot.
func (x *Run) begin(ctx context.Context) (carryOut func(), err error) {
	s := x.sandbox
	if x.counted = s.engine.living.runs.Take(s.owner, 1); !x.counted {
		return nil, &sandbox.Error{Kind: sandbox.Busy, Op: "run",
			Msg: "too many runs in living sandboxes have not ended",
			Fix: "end some that are no longer needed, or try again later"}
	}
	defer func() {
		if err != nil {
			x.uncount()
		}
	}()
	x.began = time.Now()
	head, err := x.head()
	if err != nil {
		return nil, err
	}
	if x.log.Log, err = s.logs.Create(x.id, head); err != nil {
		return nil, err
	}
	err = x.log.Sync() // before its caller knows its id, so that the next server finds it
	if err == nil && x.req.Background {
		err = x.saveRequest()
	}
	if err == nil {
		carryOut, err = x.enter(ctx)
	}
	if err != nil {
		x.dropRequest()
		return nil, errors.Join(err, x.log.Remove())
	}
	return carryOut, nil
}

// uncount gives back the run's place among those that have not ended.
func (x *Run) uncount() {
	if x.counted {
		x.counted = false
		x.sandbox.engine.living.runs.Give(x.sandbox.owner, 1)
	}
}

// enter makes the run one of the sandbox's.
func (x *Run) enter(ctx context.Context) (carryOut func(), err error) {
	s := x.sandbox
	x.output = x.newOutput()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Ended(); err != nil {
		return nil, err
	}
	if s.runs.byID[x.id] != nil {
		return nil, &sandbox.Error{Kind: sandbox.Exists, Op: "run " + string(x.id), Msg: "a run with this id exists"}
	}
	x.joinContext()
	if err := x.joinQueue(maxTurns); err != nil {
		x.leaveTurn()
		return nil, err
	}
	s.runs.add(x)
	x.labels = context.WithoutCancel(ctx)
	ctx, x.canceled = context.WithCancel(x.labels)
	s.work.Add(1)
	return func() {
		defer s.work.Done()
		x.carryOut(ctx)
	}, nil
}

// newOutput returns what receives the output.
func (x *Run) newOutput() *output {
	out := newOutput(x.Spec.Limits.OutputBytes, x.take)
	if x.req.Background || x.req.Terminal != nil {
		out.keepPart()
	}
	return out
}
