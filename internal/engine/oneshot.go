package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cputime"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Run creates a sandbox, executes one request in it, and closes it in the background.
//
// When ctx ends, Run ends the run at once; the status is StatusCanceled, also for a run that still waits for a slot. An
// error means that Fumehood failed or refused, and that no code of the request ran to its end: Invalid and TooLarge
// requests, Busy (with RetryAfter), Unavailable while draining, Unsupported by the backend or the root file system.
// Only an error of Run.Deliver comes after the end.
//
// Run calls Request.Output from one goroutine at a time, and never after it has returned. Output must return when ctx
// ends.
func (e *Engine) Run(ctx context.Context, run OneShot) (result *sandbox.Result, err error) {
	var p *oneShot
	defer func() {
		if value := recover(); value != nil {
			result, err = nil, e.panicked("run", value)
		}
		if err == nil || p != nil && p.ended {
			return // delivered has observed the end
		}
		o := Observation{Kind: RunRefused, Owner: run.Owner, Run: run.ID, request: &run.Request, Err: err}
		if p != nil {
			o.Run, o.Language = p.id, p.languageName()
		}
		e.observe(o)
	}()
	err = e.planInTurn(ctx, run.Owner, run.Request.Calls.Tools, func() (err error) {
		p, err = e.resolve(run)
		return err
	})
	if err == nil {
		if err = e.inspect(ctx, p.owner, &p.job); err != nil && hasEnded(ctx) {
			return e.delivered(p, canceled(p.job, 0))
		}
	}
	if err == nil && p.forbidden() {
		return e.delivered(p, p.rejected())
	}
	if err == nil {
		err = e.choose(ctx, p, true)
	}
	if err == nil && p.Request.Packages.Any() { // its steps belong to it, also while draining
		if err = e.admission.enter(func() { e.runs.Add(1) }); err == nil {
			p.entered = true
			defer e.runs.Done()
		}
	}
	if err == nil {
		if err = e.supply(ctx, p); err != nil && (hasEnded(ctx) || e.stop.Err() != nil) {
			return e.delivered(p, canceled(p.job, 0))
		}
	}
	if err != nil {
		return nil, err
	}
	defer p.supplied.release()
	return e.runPlan(ctx, p)
}

// oneShot is a planned Run.
type oneShot struct {
	job
	given   OneShot
	owner   string
	backend sandbox.Backend
	deliver func(*sandbox.Result) error
	changes func(io.Reader) error
	entered bool // it counts as a run before it has a slot
	ended   bool // it has a result
	supplied
}

// job is a planned run with its name.
type job struct {
	*plan.Run
	id      sandbox.ID
	asked   string        // the requested name of the backend
	named   bool          // its code's file is its own
	baseEnv []string      // under those of the language and the request
	plain   bool          // start an interpreter instead of forking a zygote
	work    *sandbox.Work // whose files are handed over; else nil

	packages []sandbox.Package // that were installed for it
	absent   absent
	checked  checked
}

// absent lists modules of a run for which no package was installed.
type absent struct {
	missing  []string // none was found
	optional []string // its code can do without them
}

// resolve checks a run and resolves all but its backend and its image.
func (e *Engine) resolve(run OneShot) (*oneShot, error) {
	p := &oneShot{given: run, owner: run.Owner, deliver: run.Deliver, changes: run.Changes}
	if run.Spec.Lifetime != (sandbox.Lifetime{}) {
		return nil, sandbox.Invalidf("lifetime", "a one-shot sandbox ends with its run")
	}
	if len(run.Request.Calls.Tools) > 0 {
		if err := checkInContext(&run.Request); err != nil {
			return nil, err
		}
	}
	return p, e.plan(p, sandbox.Image{})
}

// plan plans a run on an image. Without code, a command and an image, it plans no process: that of the image will run.
func (e *Engine) plan(p *oneShot, image sandbox.Image) error {
	request := p.given.Request
	if image.Digest != "" {
		request = plan.WithCommand(request, image)
	}
	rules := e.rulesOf(p.owner).OnImage(image)
	root := p.given.Spec.Root
	switch ofImage := root.Image+root.Digest+image.Digest != ""; { // also of one whose name is gone
	case p.given.installs && (p.given.indexed || !ofImage):
		rules.Ceiling = nil
	case p.given.installs: // the image named the index, and its programs are hostile
		p.given.Spec.Network.Trusted = nil
	}
	rooted := rules.Rooted(p.given.Spec, image)
	if p.given.WithoutStart {
		rooted.Root.Start = nil
	}
	spec, err := rules.BoxFor(rooted, &request)
	if err != nil {
		return err
	}
	asked := cmp.Or(p.given.Backend, e.defaultName())
	if spec.Root.Image != "" && image.Digest == "" && !plan.HasSource(&request) {
		p.job.id, p.job.asked = cmp.Or(p.given.ID, sandbox.NewID()), asked
		p.job.Run = &plan.Run{Spec: spec, Request: request}
		return nil
	}
	planned, err := newJob(&rules, cmp.Or(p.job.id, p.given.ID), asked, request, spec)
	planned.checked, planned.work, planned.baseEnv = p.job.checked, p.job.work, rules.DefaultEnv
	p.job = planned
	return err
}

// newJob plans a request in a sandbox of a complete spec, by the rules of its owner. asked is the requested name of the
// backend.
func newJob(rules *plan.Rules, id sandbox.ID, asked string, request sandbox.Request, spec sandbox.Spec) (j job,
	err error) {
	j.id, j.asked = cmp.Or(id, sandbox.NewID()), asked
	if _, err := sandbox.ParseID(string(j.id)); err != nil {
		return j, err
	}
	if j.Run, err = rules.Run(request, spec); err == nil && j.BuildDir != "" {
		j.BuildIn(j.BuildDir + "/" + string(j.id)) // several may run in one sandbox
	}
	return j, err
}

// choose finds the backend of a run, and the image of its root. With fetch, a missing image may be fetched.
func (e *Engine) choose(ctx context.Context, p *oneShot, fetch bool) (err error) {
	if p.backend, err = e.backend(ctx, p.asked, p.Spec.AllowUnenforced); err != nil {
		return err
	}
	return e.enterImage(ctx, p, fetch)
}

// errStopped cancels the runs in progress when the engine closes.
var errStopped = errors.New("the server is stopping")

func (e *Engine) runPlan(ctx context.Context, p *oneShot) (*sandbox.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.stop, func() { cancel(errStopped) })()

	asked := time.Now()
	admitted := false
	err := e.admission.take(ctx, p.owner, func() {
		admitted = true
		e.runs.Add(1)
	}, p.entered)
	if admitted {
		defer e.runs.Done()
	}
	waited := time.Since(asked)
	if err != nil {
		if hasEnded(ctx) {
			return e.delivered(p, canceled(p.job, waited))
		}
		return nil, err
	}
	defer cputime.Aside(ctx)()
	// The slot is free once the box is retired and the answer delivered.
	var holders atomic.Int32
	holders.Store(2)
	started := time.Now()
	leave := func() {
		if holders.Add(-1) == 0 {
			e.admission.release(p.owner, time.Since(started))
		}
	}
	defer leave() // also when something panics
	result, err := e.once(ctx, p, leave)
	if err != nil {
		if hasEnded(ctx) {
			return e.delivered(p, canceled(p.job, waited))
		}
		return nil, err
	}
	result.Timings.Queue = waited
	return e.delivered(p, result)
}

// delivered observes the end of the run, and passes the result to Deliver, which may change it, before the slot is
// released.
func (e *Engine) delivered(p *oneShot, result *sandbox.Result) (*sandbox.Result, error) {
	p.ended = true
	if p.work == nil { // no step of an installation
		e.observe(Observation{Kind: RunEnded, Owner: p.owner, Run: p.id, Language: p.languageName(),
			request: &p.Request, Sandbox: result.Requested.ID, Backend: result.Effective.Backend, Result: result})
	}
	if p.deliver != nil {
		if err := p.deliver(result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// once creates a sandbox, executes in it and retires its box, which calls release.
func (e *Engine) once(ctx context.Context, p *oneShot, release func()) (*sandbox.Result, error) {
	var s *Sandbox
	started := time.Now()
	defer func() { // also when something panics
		if s == nil {
			release()
			return
		}
		if len(p.Spec.NamedVolumes()) > 0 { // they are free once the caller has the answer
			defer release()
			s.closeBox()
			return
		}
		e.closers.retire(s, release)
	}()
	if err := e.living.crowding.refusal(p.owner); err != nil {
		return nil, err
	}
	for {
		var err error
		if s, err = e.create(ctx, p); err != nil {
			return nil, fmt.Errorf("create the sandbox: %w", err)
		}
		created := time.Since(started)
		e.living.crowding.add(s)
		if e.config.Living.Processes > 0 {
			e.startWeighing() // which counts processes, too
		}
		result, err := e.performOnce(ctx, s.newRun(p.job, RunRequest{Request: p.Request}))
		if errors.Is(err, sandbox.ErrEntered) && !p.plain { // nothing has run; use another sandbox
			e.closers.retire(s, func() {})
			e.log.Warn("discarded a sandbox whose fork of an interpreter failed", "sandbox", s.id, "err", err)
			s, p.plain = nil, true
			continue
		}
		if err == nil && result.Status == sandbox.StatusLost {
			err = s.crowdedOut()
		}
		if err == nil {
			result.Timings.Create = created
			err = s.handChanges(ctx, p, result)
		}
		return result, err
	}
}

// handChanges passes the changes to a writable root to the caller of a run that succeeded.
func (s *Sandbox) handChanges(ctx context.Context, p *oneShot, result *sandbox.Result) error {
	if p.changes == nil || result.Status != sandbox.StatusSucceeded {
		return nil
	}
	box, ok := s.box.(sandbox.Changed)
	if !ok {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "changes",
			Msg: s.backend.Name() + " has no writable roots"}
	}
	r, w := io.Pipe()
	var writer sync.WaitGroup
	writer.Go(func() { w.CloseWithError(box.Changes(ctx, w)) })
	err := errors.Join(p.changes(r), r.Close()) // which ends the writer
	writer.Wait()                               // or it would read a root that is closed
	return err
}

// hasEnded reports whether ctx has ended or its deadline has passed, which package net may notice before the
// context's own timer.
func hasEnded(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

// canceled is the result of a run that was canceled before anything ran.
func canceled(p job, waited time.Duration) *sandbox.Result {
	return &sandbox.Result{
		ID:        p.id,
		Status:    sandbox.StatusCanceled,
		ExitCode:  -1,
		Requested: p.Spec,
		Effective: sandbox.Policy{Requested: p.asked},
		Timings:   sandbox.Timings{Queue: waited},
		Hints:     []sandbox.Hint{sandbox.HintNotStarted},
	}
}

// panicked logs a panic with its stack and returns an error for the caller.
func (e *Engine) panicked(op string, p any) error {
	err := &sandbox.Error{Kind: sandbox.Internal, Op: op, Msg: fmt.Sprint("panic: ", p)}
	e.observe(Observation{Kind: PanicContained, Err: err})
	e.log.Error("contained a panic", "op", op, "panic", p, "stack", string(debug.Stack()))
	return err
}
