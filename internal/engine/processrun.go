package engine

import (
	"context"
	"errors"
	"math"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of ending a run in a living sandbox.
const (
	killTimeout = 10 * time.Second // for the guest to end the processes; then the sandbox is unusable
	waitStep    = time.Second      // for an exit record, before more of the output that it waits for is dropped
	ackStep     = 64 << 10         // bytes of output in the log before they are acknowledged
)

// runProcess starts a process in the sandbox and follows it to its end. The verdict says how it ended; exited is valid
// with causeExit only.
//
// The guest enforces the deadline, so that it is punctual and the sandbox survives. The host's own deadline comes
// hostGrace later. Both use the monotonic clock and are set before the start.
func (x *Run) runProcess(ctx context.Context) (exited guest.Exited, err error) {
	s := x.sandbox
	stream, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(s.life, func() { x.lifeOver(cut) })()
	end := func(c cause) {
		switch {
		case !x.verdict.claim(c):
		case s.oneShot:
			cut() // in a one-shot sandbox, the remaining processes end with the box
		default:
			s.spawn(func() { x.kill(stream, cut) })
		}
	}
	limit := x.Spec.Limits.Timeout
	if x.BuildDir != "" && x.resumed != nil { // only the guest knows when the program began, after its compiler
		limit += x.Compilation(s.engine.rulesOf(s.owner).Max).Spec.Limits.Timeout
	}
	deadline := time.AfterFunc(max(time.Until(x.began)+limit, 0)+hostGrace, func() { end(causeDeadline) })
	defer deadline.Stop()
	defer context.AfterFunc(ctx, func() { x.canceledBy(end) })()

	process, err := x.launch(stream)
	answered := sandbox.KindOf(err) != sandbox.Unavailable
	if err == nil {
		x.freeBegun()
		defer x.label()()
		fed := x.feed(stream)
		exited, err = s.follow(stream, process, x.attached, x.took(end), x.log.Log == nil)
		cut()
		<-fed
		if err == nil {
			x.verdict.claim(causeExit)
			return exited, nil
		}
		x.verdict.claim(causeLost)
	} else if err := x.failedStart(err); err != nil {
		return exited, err
	}
	if c := x.verdict.of(); c != causeNotStarted && c != causeRejected {
		// It has no follower any more. An error means that nothing was started, or that the sandbox ends.
		_, _ = s.endProcess(x.id, answered)
	}
	return exited, nil
}

// canceledBy ends a run that its caller canceled. The end of the sandbox cancels it too, but then lifeOver decides.
func (x *Run) canceledBy(end func(cause)) {
	if x.sandbox.life.Err() == nil {
		end(causeCanceled)
	}
}

// lifeOver ends a run with its sandbox.
func (x *Run) lifeOver(cut func()) {
	var ended *endedError
	switch {
	case !errors.As(context.Cause(x.sandbox.life), &ended): // the next server continues it
	case ended.reason == reasonRemoved || ended.reason == reasonClosed:
		x.verdict.claim(causeCanceled)
	default:
		x.verdict.claim(causeLost)
	}
	cut()
}

// launch starts the process, or attaches to the one that an earlier server started.
func (x *Run) launch(ctx context.Context) (process *client.Process, err error) {
	if x.resumed != nil {
		process, err = x.resumed.attach(ctx, x)
	} else {
		process, err = x.start(ctx)
	}
	if err == nil {
		x.attached(process)
	}
	return process, err
}

// failedStart claims the verdict of a run whose process did not start. An error means that nothing was started.
func (x *Run) failedStart(err error) error {
	if errors.Is(err, errRejected) {
		x.verdict.claim(causeRejected)
	}
	var refused *notStarted
	if errors.As(err, &refused) && x.verdict.claim(causeNotStarted) {
		x.notStarted = refused.hint
		x.output.say(refused.line)
	}
	if x.verdict.of() == causeNone && (sandbox.KindOf(err) != sandbox.Unavailable ||
		errors.Is(err, sandbox.ErrEntered)) {
		return err // the guest reports that nothing was started
	}
	x.verdict.claim(causeLost)
	return nil
}

// start starts the process, in a waiting interpreter if possible.
func (x *Run) start(ctx context.Context) (*client.Process, error) {
	parked, err := x.interpreter(ctx)
	if err != nil {
		return nil, err
	}
	m := guest.Start{
		ID:       string(x.id),
		Argv:     x.Argv,
		Env:      x.Env,
		Dir:      x.Dir,
		User:     x.Spec.User,
		Deadline: x.Spec.Limits.Timeout, KillSignal: int32(syscall.SIGTERM), Grace: termGrace,
		Buffer: outputBuffer,
		Parked: parked,
	}
	if len(x.Request.Stdin) > 0 || x.req.Interactive {
		m.Stdin = guest.StdinPipe
	}
	if t := x.req.Terminal; t != nil {
		m.TTY, m.Rows, m.Cols = true, t.Rows, t.Cols
	} else if !x.req.Interactive && x.Language != nil && x.Language.Lines != nil {
		if b, ok := x.sandbox.backend.(sandbox.LineBuffered); ok && b.LineBuffered() {
			m.Env = plan.PrependPaths(x.Env, x.Language.Lines.Env)
		}
	}
	process, err := x.startAs(ctx, m)
	if err == nil && process.Parked() {
		kind := RunParked
		if x.sandbox.forked {
			kind = RunForked
		}
		x.notify(kind, nil, nil)
	}
	return process, err
}

// interpreter reports whether an interpreter waits in the sandbox for this run. If none waits, it forks one, if
// possible.
func (x *Run) interpreter(ctx context.Context) (waits bool, err error) {
	s := x.sandbox
	if s.wanted == nil {
		return false, nil
	}
	if s.parked == nil {
		if err := s.park(ctx, s.wanted, false); errors.Is(err, sandbox.ErrEntered) {
			return false, err
		} else if err != nil && !errors.Is(err, sandbox.ErrNoZygote) && ctx.Err() == nil {
			s.engine.log.Debug("a waiting interpreter could not be used", "sandbox", s.id, "err", err)
		}
	}
	return s.parkedFor(s.wanted), nil
}

// startAs starts the process of a message, with the first of the language's interpreters that the root holds.
func (x *Run) startAs(ctx context.Context, m guest.Start) (*client.Process, error) {
	process, err := x.sandbox.startProcess(ctx, m, x.repeated)
	for _, program := range x.Programs()[min(1, len(x.Programs())):] {
		if err == nil || !errors.Is(err, syscall.ENOENT) {
			break
		}
		m.Argv = x.ArgvWith(program)
		process, err = x.sandbox.startProcess(ctx, m, x.repeated)
	}
	if err != nil {
		return nil, x.startError(ctx, err)
	}
	return process, nil
}

// feed writes stdin to the process in the background, then closes it and the returned channel.
func (x *Run) feed(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	stdin := x.Request.Stdin
	if len(stdin) == 0 {
		close(done)
		return done
	}
	go func() { // ends with ctx, which runProcess cancels before it waits
		defer close(done)
		for at := 0; at < len(stdin); {
			data := stdin[at:min(at+guest.MaxData, len(stdin))]
			m := guest.Input{ID: string(x.id), Offset: uint64(at), Data: data, EOF: at+len(data) == len(stdin)}
			err := x.sandbox.call(ctx, func(c *client.Client) error {
				_, err := c.Input(ctx, m) // the guest takes no offset twice, also of what an earlier server sent
				return err
			})
			if err != nil {
				return
			}
			at += len(data)
		}
	}()
	return done
}

// attached records the process of the run, as the current connection knows it.
func (x *Run) attached(p *client.Process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.process.Process == nil {
		close(x.process.ready)
	}
	x.process.Process = p
	if p.PID() > 0 {
		x.process.pid = p.PID()
	}
}

// took returns what receives the output of the process. With a log, output is acknowledged once it is in the log.
func (x *Run) took(end func(cause)) func(*client.Process, guest.Output) error {
	var acked uint64
	return func(p *client.Process, m guest.Output) error {
		if err := x.output.take(m); errors.Is(err, errRunaway) {
			end(causeOutput)
		} else if err != nil {
			return err
		}
		if x.log.Log == nil {
			return nil
		}
		at := p.Offsets()
		if done := at.Stdout + at.Stderr; done-acked >= ackStep {
			if err := x.log.Sync(); err != nil { // a full disk costs output, not the run
				x.cannotLog("the output", err)
			}
			if p.Ack(guest.Ack{Stdout: at.Stdout, Stderr: at.Stderr}) == nil {
				// or the connection broke, which follow handles
				acked = done
			}
		}
		return nil
	}
}

// take receives output within its limit and puts it into the log, and to the caller who follows it.
func (x *Run) take(stream sandbox.Stream, data []byte) {
	kind, end := eventlog.Stdout, x.base.Stdout+uint64(min(x.output.stdout.total, x.output.limit))
	if stream == sandbox.Stderr {
		kind, end = eventlog.Stderr, x.base.Stderr+uint64(min(x.output.stderr.total, x.output.limit))
	}
	if _, err := x.log.Append(kind, end, data); err != nil {
		x.cannotLog("the output", err)
	}
	if x.req.Request.Output != nil {
		x.req.Request.Output(stream, data)
	}
}

// logTails logs the kept end of output past its limit, which take leaves out.
func (x *Run) logTails(r *sandbox.Result) {
	for _, s := range []struct {
		kind     eventlog.Kind
		base     uint64
		captured *sandbox.Captured
	}{{eventlog.Stdout, x.base.Stdout, &r.Stdout}, {eventlog.Stderr, x.base.Stderr, &r.Stderr}} {
		at := int64(len(s.captured.Head)) + s.captured.Dropped // the offset of the tail
		logged := max(x.output.limit-at, 0)                    // bytes of the tail
		if s.captured.Dropped == 0 || logged >= int64(len(s.captured.Tail)) {
			continue
		}
		end := s.base + uint64(at) + uint64(len(s.captured.Tail))
		if _, err := x.log.Append(s.kind, end, s.captured.Tail[logged:]); err != nil {
			x.cannotLog("the end of the output", err)
		}
	}
}

// kill ends the processes of the run, whose exit record cuts the stream. If the guest does not, it ends the sandbox.
// A start in progress finishes first, or its process would be left.
func (x *Run) kill(stream context.Context, cut func()) {
	ctx, cancel := context.WithTimeout(stream, killTimeout)
	defer cancel()
	select {
	case <-x.process.ready:
		x.sandbox.signal(ctx, killing(string(x.id)))
	case <-ctx.Done():
	}
	<-ctx.Done()
	if stream.Err() == nil {
		x.sandbox.endUnkillable()
		cut()
	}
}

// endUnkillable ends a sandbox whose guest did not end a process.
func (s *Sandbox) endUnkillable() {
	s.endAside("its guest did not end a process in " + killTimeout.String())
}

// killing is the message that ends all processes of a run.
func killing(id string) guest.Signal {
	return guest.Signal{ID: id, Signal: int32(sigkill), Scope: guest.ScopeExecution}
}

// endProcess ends the processes of a run without a follower, and returns the exit record. If the guest does not within
// killTimeout, it ends the sandbox. If the guest has not answered the start, it may still be starting the process:
// endProcess then waits for it. In a one-shot sandbox, the processes end with the box.
func (s *Sandbox) endProcess(id sandbox.ID, answered bool) (exited guest.Exited, err error) {
	if s.oneShot {
		return exited, nil
	}
	ctx, cancel := context.WithTimeout(s.life, killTimeout)
	defer cancel()
	dropped := guest.Ack{ID: string(id), Stdout: math.MaxUint64, Stderr: math.MaxUint64, Channel: math.MaxUint64,
		Background: math.MaxUint64}
	for {
		err = s.persist(ctx, func(c *client.Client) error { // a running process cannot be forgotten
			_ = c.Signal(ctx, killing(string(id)))      // if the connection broke, Ack fails, too
			if err := c.Ack(ctx, dropped); err != nil { // the exit record waits until all output has room
				return err
			}
			step, cancel := context.WithTimeout(ctx, waitStep)
			defer cancel()
			exited, err = c.Wait(step, string(id))
			return err
		})
		if !answered && sandbox.KindOf(err) == sandbox.NotFound && pauseUntil(ctx, time.Now().Add(redialPause)) {
			continue
		}
		if sandbox.KindOf(err) == sandbox.Unavailable && s.life.Err() == nil {
			s.endUnkillable()
		}
		return exited, err
	}
}

// follow passes the output of a process to take until its exit record comes, over as many connections as that needs;
// attached receives each new one. With ack the guest may drop what was taken.
func (s *Sandbox) follow(ctx context.Context, p *client.Process, attached func(*client.Process),
	take func(*client.Process, guest.Output) error, ack bool) (guest.Exited, error) {
	for {
		var broken error
		exited, err := p.Stream(ctx, func(m guest.Output) error {
			broken = take(p, m)
			return broken
		}, ack)
		if err == nil {
			return exited, nil
		}
		at := p.Offsets()
		p.Close()
		var kept *client.Forgotten
		if errors.As(err, &kept) && skipTo(&at, kept) && broken == nil {
			err = &sandbox.Error{Kind: sandbox.Unavailable, Err: err}
		}
		if broken != nil || ctx.Err() != nil || sandbox.KindOf(err) != sandbox.Unavailable {
			return guest.Exited{}, err
		}
		pauseUntil(ctx, time.Now().Add(redialPause)) // a hostile guest may end each stream at once
		if p, err = s.attach(ctx, at); err != nil {
			return guest.Exited{}, err
		}
		attached(p)
	}
}

// skipTo moves an offset to the oldest output that the guest keeps, and reports whether that is further.
func skipTo(at *guest.Attach, kept *client.Forgotten) bool {
	next := &at.Stdout
	switch kept.Stream {
	case sandbox.Stderr:
		next = &at.Stderr
	case sandbox.Channel:
		next = &at.Channel
	case sandbox.Background:
		next = &at.Background
	}
	further := kept.Oldest > *next
	*next = max(*next, kept.Oldest)
	return further
}
