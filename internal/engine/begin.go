package engine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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
	s.runs.add(x)
	x.joinContext()
	ctx, x.canceled = context.WithCancel(context.WithoutCancel(ctx))
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

// The request of a background run is kept beside its log until the run has ended. The next server starts a run that
// had not started when its server was killed, and sends the rest of its code or stdin to one that had.

func (s *Sandbox) requestFile(id sandbox.ID) string {
	return filepath.Join(s.logs.Dir(), string(id)+".request")
}

// saveRequest keeps the request. It needs no sync of the disk: the sandbox does not survive the machine either.
func (x *Run) saveRequest() error {
	text, err := json.Marshal(&x.req)
	if err == nil {
		err = os.WriteFile(x.sandbox.requestFile(x.id), text, 0o600)
	}
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "keep the request of a run", Err: err,
			Fix: "free space in the state folder of Fumehood"}
	}
	return nil
}

// dropRequest removes the request.
func (x *Run) dropRequest() {
	if x.req.Background {
		_ = os.Remove(x.sandbox.requestFile(x.id)) // its folder is removed with the sandbox
	}
}

// loadRequest completes a request by what saveRequest kept, and reports whether it could.
func (s *Sandbox) loadRequest(r *RunRequest) bool {
	text, err := os.ReadFile(s.requestFile(r.ID))
	if err != nil {
		return false
	}
	saved := RunRequest{}
	if json.Unmarshal(text, &saved) != nil { // its server was killed before it answered
		return false
	}
	saved.ID = r.ID
	*r = saved
	return true
}
