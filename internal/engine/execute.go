package engine

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// outputBuffer is the guest's buffer of each stream: enough for a scheduling delay at pipe speed.
const outputBuffer = guest.DefaultBuffer

// execution is one run of a job in a live sandbox.
type execution struct {
	job
	live    *live
	client  *client.Client
	stays   *Execution // in a living sandbox, which goes on; nil in a one-shot one
	verdict verdict
	output  *output
	timings sandbox.Timings
	before  sandbox.Usage // of the sandbox, when it began

	attempts uint64 // to reach something, that the sandbox had made by then

	baseline   listing // of the workspace before the start; nil if no files are returned
	compiled   *sandbox.Compiled
	notStarted sandbox.Hint   // why no program started
	found      []sandbox.Hint // from collecting files, and from the guest
}

// execute runs a job in a one-shot sandbox.
func (l *live) execute(ctx context.Context, j job) (*sandbox.Result, error) {
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	x := &execution{job: j, live: l, client: c}
	x.output = newOutput(j.Spec.Limits.OutputBytes, j.Request.Output)
	return x.perform(ctx, x.run)
}

// perform takes the execution from its files to its result; run is what runs it. An error means that nothing was started; after the
// start, every end is a status.
func (x *execution) perform(ctx context.Context, run func(context.Context) (guest.Exited, error)) (*sandbox.Result, error) {
	if !x.forbidden() {
		if err := x.upload(ctx); err != nil {
			return nil, err
		}
		if err := x.lookAtEntry(ctx); err != nil {
			return nil, err
		}
	}
	if x.forbidden() {
		x.verdict.claim(causeRejected)
		x.output.say(x.refusal())
		return x.conclude(ctx, guest.Exited{}), nil
	}
	x.attempts = x.live.attempts()
	started := time.Now()
	if x.stays != nil && x.stays.resumed != nil {
		started = x.stays.began
	}
	defer x.cleanUp()
	made, exited, err := x.compile(ctx)
	if made {
		if x.compiled != nil {
			started = x.beginAgain()
		}
		exited, err = run(ctx)
	}
	if err != nil {
		return nil, err
	}
	x.timings.Run = time.Since(started)
	r := x.conclude(ctx, exited)
	return r, x.handOver(ctx, r)
}

// beginAgain begins the time limit of the program, once it is compiled.
func (x *execution) beginAgain() time.Time {
	now := time.Now()
	if x.stays != nil {
		x.stays.mu.Lock()
		x.stays.began = now
		x.stays.mu.Unlock()
	}
	return now
}

// conclude assembles the result of an execution that has ended.
func (x *execution) conclude(ctx context.Context, exited guest.Exited) *sandbox.Result {
	o := x.observe(exited)
	r := x.result(o)
	x.collect(ctx, o, r)
	r.Timings = x.timings
	r.Hints = x.diagnose(o, r)
	return r
}

// connect dials the guest. The connection is closed with the sandbox.
func (l *live) connect(ctx context.Context) (*client.Client, error) {
	if l.client != nil {
		return l.client, nil
	}
	conn, err := l.box.Dial(ctx)
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "dial the guest", Err: err}
	}
	l.client, err = client.New(ctx, conn, l.box.GuestKey())
	return l.client, err
}

// run starts the process and follows it to its end. The verdict says how it ended; exited is valid with causeExit only.
//
// The guest enforces the deadline, so that it is punctual and the sandbox survives. The host's own deadline comes hostGrace later. Both
// use the monotonic clock and are set before the start.
func (x *execution) run(ctx context.Context) (guest.Exited, error) {
	// A claim before the guest's cancels the stream. What still runs ends with the box.
	stream, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	end := func(c cause) {
		if x.verdict.claim(c) {
			cut()
		}
	}
	deadline := time.AfterFunc(x.Spec.Limits.Timeout+hostGrace, func() { end(causeDeadline) })
	defer deadline.Stop()
	defer context.AfterFunc(ctx, func() { end(causeCanceled) })()

	process, err := x.start(stream)
	if err != nil {
		return guest.Exited{}, x.failedStart(err)
	}
	fed := x.feed(stream, process)
	exited, err := process.Stream(stream, x.output.take, true)
	if err != nil {
		process.Close()
		if errors.Is(err, errRunaway) {
			x.verdict.claim(causeOutput)
		}
		x.verdict.claim(causeLost)
	} else {
		x.verdict.claim(causeExit)
	}
	cut()
	<-fed
	return exited, nil
}

// failedStart claims the verdict of an execution whose process did not start. An error says that nothing has.
func (x *execution) failedStart(err error) error {
	if errors.Is(err, errRejected) {
		x.verdict.claim(causeRejected)
	}
	var refused *notStarted
	if errors.As(err, &refused) && x.verdict.claim(causeNotStarted) {
		x.notStarted = refused.hint
		x.output.say(refused.line)
	}
	if x.verdict.of() == causeNone && (sandbox.KindOf(err) != sandbox.Unavailable || errors.Is(err, sandbox.ErrEntered)) {
		return err // the guest reports that nothing was started
	}
	x.verdict.claim(causeLost)
	return nil
}

// start starts the process, with the first of the language's interpreters that the root holds.
func (x *execution) start(ctx context.Context) (*client.Process, error) {
	if process, err := x.fork(ctx); process != nil || err != nil {
		return process, err
	}
	m := guest.Start{
		ID:       string(x.id),
		Argv:     x.Argv,
		Env:      x.Env,
		Dir:      x.Dir,
		User:     x.Spec.User,
		Deadline: x.Spec.Limits.Timeout,
		Buffer:   outputBuffer,
	}
	if len(x.Request.Stdin) > 0 || x.stays != nil && x.stays.asks.Interactive {
		m.Stdin = guest.StdinPipe
	}
	return x.startAs(ctx, m)
}

// startAs starts the process of a message.
func (x *execution) startAs(ctx context.Context, m guest.Start) (*client.Process, error) {
	process, err := x.client.Start(ctx, m)
	for _, program := range x.Programs[min(1, len(x.Programs)):] {
		if err == nil || !errors.Is(err, syscall.ENOENT) {
			break
		}
		m.Argv = x.ArgvWith(program)
		process, err = x.client.Start(ctx, m)
	}
	if err != nil {
		return nil, x.startError(ctx, err)
	}
	return process, nil
}

// feed writes stdin to the process in the background, then closes it and the returned channel.
func (x *execution) feed(ctx context.Context, process *client.Process) <-chan struct{} {
	done := make(chan struct{})
	if len(x.Request.Stdin) == 0 {
		close(done)
		return done
	}
	go func() { // ends with ctx, which run cancels before it waits
		defer close(done)
		if process.Input(ctx, x.Request.Stdin) == nil {
			_ = process.CloseStdin(ctx) // a process that is gone needs no end of file
		}
	}()
	return done
}

// observe reads the host's counters. It ignores the caller's context: a canceled run has used resources too.
func (x *execution) observe(exited guest.Exited) *outcome {
	o := &outcome{cause: x.verdict.of(), exited: exited, notStarted: x.notStarted}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	var err error
	if o.usage, err = x.live.box.Usage(ctx); err != nil {
		x.live.engine.log.Warn("could not read the host's counters", "sandbox", x.live.id, "err", err)
		o.usage = unknownUsage
	} else if x.stays != nil {
		x.stays.sandbox.measured(o.usage)
	}
	o.usage = sinceBefore(o.usage, x.before)
	o.oom = max(o.usage.OOMKills, 0)
	o.usage.Wall = x.timings.Run
	if o.usage.CPU < 0 && o.cause == causeExit {
		o.usage.CPU = exited.CPU
	}
	if o.cause == causeLost {
		brief, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		o.end, err = x.live.box.Wait(brief)
		o.ended = err == nil
	}
	return o
}

var unknownUsage = sandbox.Usage{CPU: -1, MemoryPeak: -1, MemoryNow: -1, OOMKills: -1, PidsNow: -1, PidsRefused: -1, DiskWritten: -1}

// sinceBefore turns the sandbox's totals into those since an earlier moment. Peaks stay those of the sandbox.
func sinceBefore(now, before sandbox.Usage) sandbox.Usage {
	since := func(now, before int64) int64 {
		if now < 0 || before < 0 {
			return -1
		}
		return max(now-before, 0)
	}
	now.CPU = time.Duration(since(int64(now.CPU), int64(before.CPU)))
	now.OOMKills = since(now.OOMKills, before.OOMKills)
	now.PidsRefused = since(now.PidsRefused, before.PidsRefused)
	now.DiskWritten = since(now.DiskWritten, before.DiskWritten)
	return now
}

// result assembles the result without files and hints.
func (x *execution) result(o *outcome) *sandbox.Result {
	r := &sandbox.Result{
		ID:        x.id,
		Status:    o.status(),
		Stdout:    x.output.stdout.captured(),
		Stderr:    x.output.stderr.captured(),
		Compiled:  x.compiled,
		Findings:  x.checked.findings,
		Usage:     o.usage,
		Requested: x.Spec,
		Asked:     x.asked,
		Packages:  x.packages,
		Effective: effective(x.live.box.Effective(), x.Spec.Limits),
	}
	r.Requested.ID = x.live.id
	r.ExitCode, r.Signal = o.exit()
	if ended := r.Status == sandbox.StatusFailed || r.Status == sandbox.StatusKilled; ended && !x.compileFailed() && x.Language != nil && x.Language.ParseError != nil {
		r.Exception = x.parseError(r.Stderr)
	}
	return r
}

// parseError lets the language parse the stderr of a failed program. The bytes are hostile and the parser large, so it contains a panic.
func (x *execution) parseError(c sandbox.Captured) (found *sandbox.Exception) {
	defer func() {
		if p := recover(); p != nil {
			found = nil
			_ = x.live.engine.panicked("read the exception of "+x.Language.Name, p)
		}
	}()
	text := c.Head
	if c.Dropped > 0 { // an uncaught exception is written last
		text = c.Tail
	}
	return x.Language.ParseError(text)
}

// effective adds the limits of guest and engine to the backend's policy.
func effective(p sandbox.Policy, asked sandbox.Limits) sandbox.Policy {
	p.Limits.Timeout, p.Limits.OutputBytes = asked.Timeout, asked.OutputBytes
	enforcers := map[sandbox.LimitName]string{
		sandbox.LimitTimeout: "the guest's monotonic clock, and the host's",
		sandbox.LimitOutput:  "the host keeps head and tail",
	}
	for name, by := range p.Enforcers {
		enforcers[name] = by
	}
	p.Enforcers = enforcers
	return p
}
