package engine

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/client"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// outputBuffer is what the guest keeps of each stream until it is taken: enough to bridge a scheduling delay at pipe speed.
const outputBuffer = guest.DefaultBuffer

// execution is one run of a plan in a live sandbox.
type execution struct {
	*plan
	live    *live
	client  *client.Client
	verdict verdict
	output  *output
	timings sandbox.Timings

	baseline   listing        // of the workspace before the start; nil where no files are handed back
	notStarted sandbox.Hint   // why there was no program to start
	found      []sandbox.Hint // what collecting the files and the guest had to tell
}

// execute carries out a plan in the sandbox. An error means that nothing was started; from then on every end is a status.
func (l *live) execute(ctx context.Context, p *plan) (*sandbox.Result, error) {
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	x := &execution{plan: p, live: l, client: c}
	x.output = newOutput(p.Spec.Limits.OutputBytes, p.request.Output, &x.verdict)
	if err := x.upload(ctx); err != nil {
		return nil, err
	}
	started := time.Now()
	exited, err := x.run(ctx)
	if err != nil {
		return nil, err
	}
	x.timings.Run = time.Since(started)
	o := x.observe(exited)
	r := x.result(o)
	x.collect(ctx, o, r)
	r.Timings = x.timings
	r.Hints = x.hints(o, r)
	return r, nil
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

// run starts the process and follows it to its end. The verdict says what the end was; exited is of meaning with causeExit only.
//
// The deadline is the guest's to keep, so that it strikes in time and leaves the sandbox whole. The host's own comes hostGrace
// later. Both are on the monotonic clock and are set before the process starts.
func (x *execution) run(ctx context.Context) (guest.Exited, error) {
	// Whoever claims the verdict before the guest does ends the stream by canceling it; what still runs ends with the box.
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
		if errors.Is(err, errRejected) {
			x.verdict.claim(causeRejected)
		}
		var refused *notStarted
		if errors.As(err, &refused) && x.verdict.claim(causeNotStarted) {
			x.notStarted = refused.hint
			x.output.say(refused.line)
		}
		if x.verdict.of() == causeNone && (sandbox.KindOf(err) != sandbox.Unavailable || errors.Is(err, sandbox.ErrEntered)) {
			return guest.Exited{}, err // the guest says that nothing was started
		}
		x.verdict.claim(causeLost)
		return guest.Exited{}, nil
	}
	fed := x.feed(stream, process)
	exited, err := process.Stream(stream, x.output.take, true)
	if err != nil {
		process.Close()
		x.verdict.claim(causeLost)
	} else {
		x.verdict.claim(causeExit)
	}
	cut()
	<-fed
	return exited, nil
}

// start starts the process; of a language's interpreters, the first that the root holds.
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
	if len(x.request.Stdin) > 0 {
		m.Stdin = guest.StdinPipe
	}
	process, err := x.client.Start(ctx, m)
	for _, program := range x.Programs[min(1, len(x.Programs)):] {
		if err == nil || !errors.Is(err, syscall.ENOENT) {
			break
		}
		m.Argv = x.argv(program)
		process, err = x.client.Start(ctx, m)
	}
	if err != nil {
		return nil, x.startError(ctx, err)
	}
	return process, nil
}

// feed hands stdin to the process while its output is taken, and closes it. The channel is closed when that is over.
func (x *execution) feed(ctx context.Context, process *client.Process) <-chan struct{} {
	done := make(chan struct{})
	if len(x.request.Stdin) == 0 {
		close(done)
		return done
	}
	go func() { // ends with ctx, which run cancels before it waits
		defer close(done)
		if process.Input(ctx, x.request.Stdin) == nil {
			_ = process.CloseStdin(ctx) // a process that is gone needs no end of file
		}
	}()
	return done
}

// observe reads what the host knows of the end. It does not depend on the caller's context: a canceled run has its cost too.
func (x *execution) observe(exited guest.Exited) *outcome {
	o := &outcome{cause: x.verdict.of(), exited: exited, notStarted: x.notStarted}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	var err error
	if o.usage, err = x.live.box.Usage(ctx); err != nil {
		x.live.engine.log.Warn("the host's counters could not be read", "sandbox", x.live.id, "err", err)
		o.usage = sandbox.Usage{CPU: -1, MemoryPeak: -1, MemoryNow: -1, OOMKills: -1, PidsNow: -1, PidsRefused: -1, DiskWritten: -1}
	}
	o.oom = max(o.usage.OOMKills, 0) // the sandbox has had no other execution
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

// result puts together all but the files and the hint.
func (x *execution) result(o *outcome) *sandbox.Result {
	r := &sandbox.Result{
		ID:        x.id,
		Status:    o.status(),
		Stdout:    x.output.stdout.captured(),
		Stderr:    x.output.stderr.captured(),
		Usage:     o.usage,
		Requested: x.Spec,
		Asked:     x.asked,
		Effective: effective(x.live.box.Effective(), x.Spec.Limits),
	}
	r.Requested.ID = x.live.id
	r.ExitCode, r.Signal = o.exit()
	if r.Status == sandbox.StatusFailed && x.language != nil && x.language.ParseError != nil {
		r.Exception = x.parseError(r.Stderr)
	}
	return r
}

// parseError lets the language read the stderr of a failed program. The bytes are hostile and the parser large, so a panic in it
// costs the exception and no more.
func (x *execution) parseError(c sandbox.Captured) (found *sandbox.Exception) {
	defer func() {
		if p := recover(); p != nil {
			found = nil
			_ = x.live.engine.panicked("read the exception of "+x.Language, p)
		}
	}()
	text := c.Head
	if c.Dropped > 0 { // an uncaught exception is the last thing that is written
		text = c.Tail
	}
	return x.language.ParseError(text)
}

// effective adds to the backend's policy the limits that the guest and the engine enforce.
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
