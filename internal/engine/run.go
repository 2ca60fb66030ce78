package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cputime"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Run is one run of code or a command in a sandbox. The methods of one in a living sandbox are safe for concurrent use.
type Run struct {
	job
	sandbox  *Sandbox
	context  *Context // nil for a run in a new process
	req      RunRequest
	log      runLog   // in a living sandbox
	resumed  *resumed // it began under an earlier server; else nil
	canceled context.CancelFunc
	slot
	adding addedPackages
	inContext

	verdict verdict
	output  *output
	timings sandbox.Timings
	atStart
	facts
	ending

	mu      sync.Mutex // guards all below, and began
	process launched
	base    guest.Attach // where its output begins in the process's streams
	values
}

// atStart is the state before the program began.
type atStart struct {
	began    time.Time
	before   sandbox.Usage // of the sandbox
	attempts uint64        // to reach something, that the sandbox had made by then
	baseline listing       // of the workspace; nil if no files are returned
	runs     uint64        // of its context, this one included; the run's mu guards it
	repeated bool          // an earlier server may have requested the start
}

// facts is what explains the end, besides the outcome.
type facts struct {
	compiled   *sandbox.Compiled
	notStarted sandbox.Hint   // why no program started
	found      []sandbox.Hint // while files were collected, and about the context
}

// ending is the end of a run in a living sandbox, and the state of its log.
type ending struct {
	unlogged atomic.Bool // to write the log failed, which was reported
	kept     bool        // its request may be in a file

	done    chan struct{} // closed at the end
	result  *sandbox.Result
	failure error // in place of result: nothing ran, or the server stops
}

// values are what code in a context displayed and raised.
type values struct {
	results     []sandbox.Value // none of a background run: its log has them
	resultCount int
	exception   *sandbox.Exception
	resultBytes int
	late        sandbox.Captured // output of earlier runs of its context
}

// inContext receives the end of code in a context, and its calls.
type inContext struct {
	calls   *calls        // of tools; nil without tools
	ran     chan struct{} // closed when it has run to its end
	code    int
	runaway chan struct{} // holds a token once it writes too much
}

// launched is the process of a run, once it has started.
type launched struct {
	*client.Process               // as the current connection knows it; the run's mu guards it
	ready           chan struct{} // closed with the first
	pid             int32         // inside the sandbox; 0 until it is known
	signaled        bool          // a caller sent it a signal
}

// runLog is the log of a run.
type runLog struct {
	*eventlog.Log
	began   atomic.Uint64 // id of the event that it began, which clients do not see; 0 before
	retired atomic.Bool   // it is counted among the finished ones of its folder
}

// Append is that of eventlog.Log; the run of a fresh sandbox has no log.
func (l *runLog) Append(kind eventlog.Kind, offset uint64, data []byte) (uint64, error) {
	if l.Log == nil {
		return 0, nil
	}
	return l.Log.Append(kind, offset, data)
}

// Sync is that of eventlog.Log.
func (l *runLog) Sync() error {
	if l.Log == nil {
		return nil
	}
	return l.Log.Sync()
}

// Run executes one request and returns its result. Errors and statuses are those of Engine.Run. The output and the
// files are the caller's: another Wait for the run gets a result without them.
func (s *Sandbox) Run(ctx context.Context, req RunRequest) (*sandbox.Result, error) {
	x, carryOut, err := s.enterRun(ctx, req)
	if err != nil {
		return nil, err
	}
	if req.Background {
		go carryOut()
	} else { // another goroutine would cost the server 4 % of a short run
		stop := context.AfterFunc(ctx, x.Cancel)
		carryOut()
		stop()
	}
	result, err := x.Wait(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.result != nil { // output and files are the caller's
		x.result = &sandbox.Result{ID: x.id, Status: x.result.Status, ExitCode: x.result.ExitCode}
	}
	return result, err
}

// Start begins a run: a command once it has a slot. What waits for a context or for packages takes its slot later.
func (s *Sandbox) Start(ctx context.Context, req RunRequest) (*Run, error) {
	x, carryOut, err := s.enterRun(ctx, req)
	if err != nil {
		return nil, err
	}
	go carryOut()
	return x, nil
}

// newRun returns a run of a job in the sandbox. It is not listed yet.
func (s *Sandbox) newRun(j job, req RunRequest) *Run {
	j.Run = s.trustingRun(j.Run)
	x := &Run{job: j, sandbox: s, req: req, canceled: func() {}, process: launched{ready: make(chan struct{})}}
	x.done, x.ran, x.runaway = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	x.output, x.calls = newOutput(j.Spec.Limits.OutputBytes, req.Request.Output), newCalls(j.Request.Calls)
	return x
}

// planned returns a run of a request, without its context.
func (s *Sandbox) planned(req RunRequest) (*Run, error) {
	rules := s.engine.rulesOf(s.owner)
	return s.plannedBy(&rules, req)
}

func (s *Sandbox) plannedBy(rules *plan.Rules, req RunRequest) (*Run, error) {
	j, err := newJob(rules, req.ID, s.backend.Name(), req.Request, s.spec())
	if err != nil {
		return nil, err
	}
	x := s.newRun(j, req)
	x.named = x.Request.Code != nil && x.Language.Driver == nil && x.NameCode(x.id)
	return x, nil
}

// plan checks a request and finds its context.
func (s *Sandbox) plan(ctx context.Context, req RunRequest) (*Run, error) {
	var x *Run
	err := s.engine.planInTurn(ctx, s.owner, req.Request.Calls.Tools, func() (err error) {
		x, err = s.planned(req)
		return err
	})
	if err == nil {
		err = req.checkTerminal()
	}
	if err == nil {
		err = s.engine.inspect(ctx, s.owner, &x.job) // not again by the next server
	}
	if err != nil {
		return nil, err
	}
	if req.Background && len(req.Request.Return.Globs) > 0 {
		return nil, sandbox.Invalidf("return_files", "a background run returns none; read them once it has ended")
	}
	if req.Request.Code == nil || req.Context == "" && x.Language.Driver == nil {
		if req.Context != "" {
			return nil, sandbox.Invalidf("context", "only code runs in a context")
		}
		return x, nil
	}
	if req.Interactive || req.Terminal != nil {
		return nil, sandbox.Invalidf("stdin", "code in a context has no input; run a command")
	}
	if err := checkInContext(&req.Request); err != nil {
		return nil, err
	}
	if x.context, err = s.contextFor(req.Context, x.Language); err != nil {
		return nil, err
	}
	return x, x.callable()
}

// checkInContext refuses parts of a request that code in a context cannot have.
func checkInContext(req *sandbox.Request) error {
	switch {
	case len(req.Stdin) > 0:
		return sandbox.Invalidf("stdin", "code in a context has no input; run a command")
	case len(req.Args) > 0:
		return sandbox.Invalidf("args", "code in a context takes no arguments")
	case len(req.Env) > maxRunEnv:
		return sandbox.Invalidf("env", "a run of code in a context sets at most %d variables", maxRunEnv)
	case req.Dir != "":
		return sandbox.Invalidf("dir", "code in a context uses the context's directory")
	}
	return nil
}

// carryOut runs the run to its end and releases its slot.
func (x *Run) carryOut(ctx context.Context) {
	s := x.sandbox
	defer cputime.Aside(ctx)()
	defer x.stopAwaiting()
	defer close(x.done)
	defer x.freeSlot()
	defer x.leave()
	defer x.leaveTurn()
	defer x.leaveQueue()
	defer func() {
		if p := recover(); p != nil {
			x.failure = s.engine.panicked("execute", p)
			x.notify(RunRefused, nil, x.failure)
			x.fail(x.failure) // or its followers would wait for ever
			if x.context == nil {
				_, _ = s.endProcess(x.id, true) // an error means that it is gone, or that the sandbox ends
			}
		}
	}()
	defer x.canceled()
	detached := context.AfterFunc(s.life, x.canceled)
	defer detached()
	result, err := x.runInTurn(ctx)
	if errors.Is(context.Cause(s.life), errDetached) && (err != nil || x.verdict.of() != causeExit) {
		x.failure = errors.Join(s.Ended(), x.log.Close())
		return
	}
	if err != nil && ctx.Err() != nil { // nothing ran
		if err = s.Ended(); err == nil {
			result = canceled(x.job, x.timings.Queue)
		}
	}
	if err != nil {
		x.failure = err
		x.notify(RunRefused, nil, err)
		x.fail(err)
		return
	}
	result.Timings.Queue = x.timings.Queue
	if !x.finish(result) {
		s.spawn(x.writeLate)
	} else if x.context == nil {
		s.forgetProcess(x.id)
	}
	x.leaveTurn()
	if x.req.Deliver != nil { // with the slot, so that results that wait for memory limit new runs
		x.failure = x.req.Deliver(result)
	}
}

// finish makes the result known, and reports whether the next server will find it.
func (x *Run) finish(result *sandbox.Result) bool {
	x.mu.Lock()
	result.Results, x.results = x.results, nil // from here on it is the result's
	if x.exception != nil {
		result.Exception = x.exception
	}
	x.result = result
	pid := x.process.pid
	x.mu.Unlock()
	x.notify(RunEnded, result, nil)
	x.logTails(result)
	err := x.log.Finish(encodeResult(result, pid))
	if err != nil {
		x.sandbox.engine.log.Warn("could not finish the log of a run", "sandbox", x.sandbox.id, "run", x.id, "err", err)
	}
	return err == nil
}

// fail ends the log of a run that Fumehood failed at.
func (x *Run) fail(err error) {
	if x.log.Finish(encodeFailure(err)) != nil { // the caller gets the error itself
		x.sandbox.spawn(x.writeLate)
	}
}

// leave retires the log, and leaves the sandbox idle if no other run runs.
func (x *Run) leave() {
	s := x.sandbox
	if x.log.Last().Finished {
		x.dropRequest()
	}
	s.recordRuns(x.log.Last())
	x.retire()
	x.slim()
	x.uncount()
	s.mu.Lock()
	s.runs.running--
	forgotten := s.runs.forget()
	s.timers.used = time.Now()
	s.restartIdle()
	s.mu.Unlock()
	for _, old := range forgotten { // a follower may have written a log that could not be written at the end
		old.retire()
	}
}

// retire counts the log among the finished ones of the folder, which removes the oldest.
func (x *Run) retire() {
	if !x.log.Last().Finished || !x.log.Written() || x.log.retired.Swap(true) {
		return
	}
	if removed, err := x.sandbox.logs.Retire(x.id, x.log.Last().Bytes); err == nil && len(removed) > 0 {
		x.sandbox.engine.log.Debug("removed the logs of old runs", "sandbox", x.sandbox.id, "count", len(removed))
	}
}

func (x *Run) isDone() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// Wait returns the result once the run has ended. Unless it runs in the background, the end of ctx cancels it, and the
// status says so. The result of a background one has no output and no values: Follow has them.
func (x *Run) Wait(ctx context.Context) (*sandbox.Result, error) {
	select {
	case <-x.done:
	case <-ctx.Done():
		if x.req.Background {
			return nil, context.Cause(ctx)
		}
		x.Cancel()
		<-x.done
	}
	if x.failure != nil {
		return nil, x.failure
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.result, nil
}

// Cancel ends the run, with all its processes, as canceled. Code in a context is interrupted first, so that its state
// stays.
func (x *Run) Cancel() { x.canceled() }

// Stop is Cancel, and returns once the run has ended, or with ctx. Unavailable: the server left the run to the next one
// before.
func (x *Run) Stop(ctx context.Context) error {
	x.Cancel()
	select {
	case <-x.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if errors.Is(x.failure, errDetached) {
		return x.failure
	}
	return nil
}

// Done is closed when the run has ended, or left to the next server.
func (x *Run) Done() <-chan struct{} { return x.done }

// Info describes the run now.
func (x *Run) Info() RunInfo {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := RunInfo{ID: x.id, Command: x.req.Request.Command, Began: x.began,
		Background: x.req.Background, Status: sandbox.StatusRunning, ExitCode: -1,
		Metadata: x.req.Request.Metadata, ContextRuns: x.runs, PID: x.process.pid, Terminal: x.req.Terminal != nil}
	if !x.endless() {
		i.Deadline = x.began.Add(x.Spec.Limits.Timeout + x.calls.paused())
	}
	if x.Language != nil {
		i.Language = x.Language.Name
	}
	if x.context != nil {
		i.Context = x.context.name
	}
	if x.result != nil { // before its last event, so that a client that saw the event finds the run ended
		i.Status, i.ExitCode = x.result.Status, x.result.ExitCode
	} else if x.isDone() {
		i.Status = sandbox.StatusLost
	}
	return i
}

// ID returns the run's id.
func (x *Run) ID() sandbox.ID { return x.id }

// Input writes to stdin of an interactive command, and closes it with eof.
func (x *Run) Input(ctx context.Context, data []byte, eof bool) error {
	if !x.req.Interactive && x.req.Terminal == nil {
		return sandbox.Invalidf("stdin", "this run was not started to take input")
	}
	p, err := x.running(ctx, "stdin")
	if err != nil {
		return err
	}
	if err := p.Input(ctx, data); err != nil {
		return err
	}
	if eof {
		return p.CloseStdin(ctx)
	}
	return nil
}

// Signal sends a signal to the process and its group. Code in a context takes only SIGINT, which interrupts it.
func (x *Run) Signal(ctx context.Context, signal syscall.Signal) error {
	if x.context != nil && signal != syscall.SIGINT {
		return sandbox.Invalidf("signal",
			"code in a context can only be interrupted, by signal %d; to end it, cancel it", syscall.SIGINT)
	}
	if signal <= 0 || signal > 64 {
		return sandbox.Invalidf("signal", "%d is not a signal", signal)
	}
	if x.context != nil {
		return x.context.interruptFor(ctx, x)
	}
	p, err := x.running(ctx, "signal")
	if err != nil {
		return err
	}
	x.noteSignal()
	return p.Signal(ctx, int32(signal), guest.ScopeGroup)
}

// noteSignal notes that a caller signals the process.
func (x *Run) noteSignal() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.process.signaled = true
}

// wasSignaled reports whether a caller sent the process a signal.
func (x *Run) wasSignaled() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.process.signaled
}

// running returns the process of a run that has not ended; it waits for one that is about to start.
func (x *Run) running(ctx context.Context, step string) (*client.Process, error) {
	select {
	case <-x.process.ready:
	case <-x.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if x.isDone() {
		return nil, &sandbox.Error{Kind: sandbox.NotFound, Op: step, Msg: fmt.Sprintf("run %s is not running", x.id)}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.process.Process, nil
}
