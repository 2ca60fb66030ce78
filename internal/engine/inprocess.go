package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of ending an execution in a sandbox that goes on.
const (
	killTimeout = 10 * time.Second // for the guest to end the processes; then the sandbox is of no more use
	ackStep     = 64 << 10         // bytes of output in the log before they are acknowledged
)

// inProcess starts a command in the sandbox and follows it to its end.
func (x *Execution) inProcess(ctx context.Context) (guest.Exited, error) {
	stream, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(x.sandbox.life, func() { x.lifeOver(cut) })()
	launching, launched := context.WithTimeout(stream, x.Spec.Limits.Timeout+killTimeout) // a guest that has fallen may never answer
	process, err := x.launch(launching)
	launched()
	if err != nil {
		return guest.Exited{}, x.failedStart(err)
	}
	fed := x.feed(stream, process)
	end := func(c cause) {
		if x.verdict.claim(c) {
			x.sandbox.spawn(func() { x.kill(stream, cut) })
		}
	}
	limit := x.Spec.Limits.Timeout
	if x.BuildDir != "" && x.resumed != nil { // when the program began, after its compiler, only the guest knows
		limit += x.Compilation(x.live.engine.config.Max).Spec.Limits.Timeout
	}
	deadline := time.AfterFunc(time.Until(x.began)+limit+hostGrace, func() { end(causeDeadline) })
	defer deadline.Stop()
	defer context.AfterFunc(ctx, func() { x.canceledBy(end) })()

	exited, err := x.sandbox.follow(stream, process, x.attached, x.took(end))
	cut()
	<-fed
	if err != nil {
		x.verdict.claim(causeLost)
		x.sandbox.signal(killing(string(x.id))) // nobody follows it any more
		return exited, nil
	}
	x.verdict.claim(causeExit)
	return exited, nil
}

// canceledBy ends an execution that its caller canceled. The end of the sandbox cancels it too, but then lifeOver decides.
func (x *Execution) canceledBy(end func(cause)) {
	if x.sandbox.life.Err() == nil {
		end(causeCanceled)
	}
}

// lifeOver ends an execution with its sandbox.
func (x *Execution) lifeOver(cut func()) {
	var ended *endedError
	switch {
	case !errors.As(context.Cause(x.sandbox.life), &ended): // the next server goes on with it
	case ended.reason == reasonRemoved || ended.reason == reasonClosed:
		x.verdict.claim(causeCanceled)
	default:
		x.verdict.claim(causeLost)
	}
	cut()
}

// launch starts the process, or attaches to the one that an earlier server started.
func (x *Execution) launch(ctx context.Context) (process *client.Process, err error) {
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

// attached notes the process of the execution, as the current connection knows it.
func (x *Execution) attached(p *client.Process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.process.Process == nil {
		close(x.process.ready)
	}
	x.process.Process = p
}

// took returns what receives the output of the process. Output is acknowledged once it is in the log.
func (x *Execution) took(end func(cause)) func(*client.Process, guest.Output) error {
	var acked uint64
	return func(p *client.Process, m guest.Output) error {
		if err := x.output.take(m); errors.Is(err, errRunaway) {
			end(causeOutput)
		} else if err != nil {
			return err
		}
		at := p.Offsets()
		if done := at.Stdout + at.Stderr; done-acked >= ackStep {
			if err := x.log.Sync(); err != nil {
				return err
			}
			acked = done
			return p.Ack(guest.Ack{Stdout: at.Stdout, Stderr: at.Stderr})
		}
		return nil
	}
}

// take receives output within its limit and puts it into the log, and to the caller who follows it.
func (x *Execution) take(stream sandbox.Stream, data []byte) {
	kind, end := eventlog.Stdout, x.base.Stdout+uint64(min(x.output.stdout.total, x.output.limit))
	if stream == sandbox.Stderr {
		kind, end = eventlog.Stderr, x.base.Stderr+uint64(min(x.output.stderr.total, x.output.limit))
	}
	if _, err := x.log.Append(kind, end, data); err != nil {
		x.sandbox.engine.log.Warn("could not log the output of an execution", "sandbox", x.sandbox.id, "execution", x.id, "err", err)
	}
	if x.asks.Request.Output != nil {
		x.asks.Request.Output(stream, data)
	}
}

// kill ends the processes of the execution, whose exit record cuts the stream. If the guest does not, the sandbox is of no more use.
func (x *Execution) kill(stream context.Context, cut func()) {
	late := time.NewTimer(killTimeout)
	defer late.Stop()
	x.sandbox.signal(killing(string(x.id)))
	select {
	case <-stream.Done():
	case <-late.C:
		x.sandbox.endAside("its guest did not end a process in " + killTimeout.String())
		cut()
	}
}

// killing is the message that ends all processes of an execution.
func killing(id string) guest.Signal {
	return guest.Signal{ID: id, Signal: int32(sigkill), Scope: guest.ScopeExecution}
}

// signal sends a signal, over as many connections as that needs, for at most killTimeout. What comes of it, the exit record tells.
func (s *Sandbox) signal(m guest.Signal) {
	ctx, cancel := context.WithTimeout(s.life, killTimeout)
	defer cancel()
	for {
		err := s.connection().Signal(ctx, m)
		if sandbox.KindOf(err) != sandbox.Unavailable {
			return
		}
		select {
		case <-time.After(redialPause):
		case <-ctx.Done():
			return
		}
	}
}

// forgetProcess lets the guest forget an execution whose result is complete but for the log's end.
func (s *Sandbox) forgetProcess(id sandbox.ID) {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	if err := s.connection().Ack(ctx, guest.Ack{ID: string(id), Exit: true}); err != nil && s.life.Err() == nil {
		s.engine.log.Debug("a guest did not forget an execution", "sandbox", s.id, "execution", id, "err", err)
	}
}

// leaveProcess ends a process of ours that nobody follows any more, and that no execution is known by.
func (s *Sandbox) leaveProcess(id sandbox.ID, end cause) {
	if end != causeExit {
		s.signal(killing(string(id)))
		ctx, cancel := context.WithTimeout(s.life, killTimeout)
		_, _ = s.connection().Wait(ctx, string(id)) // what still runs cannot be forgotten
		cancel()
	}
	s.forgetProcess(id)
}

// follow hands the output of a process to take until its exit record comes, over as many connections as that needs; attached learns of
// each new one.
func (s *Sandbox) follow(ctx context.Context, p *client.Process, attached func(*client.Process),
	take func(*client.Process, guest.Output) error) (guest.Exited, error) {
	for {
		broken, idle := error(nil), true
		exited, err := p.Stream(ctx, func(m guest.Output) error {
			broken, idle = take(p, m), false
			return broken
		}, false)
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
		if idle { // or a guest that ends each stream at once would keep this busy
			select {
			case <-time.After(redialPause):
			case <-ctx.Done():
			}
		}
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
	}
	further := kept.Oldest > *next
	*next = max(*next, kept.Oldest)
	return further
}

// attach follows a process again, as soon as there is a connection.
func (s *Sandbox) attach(ctx context.Context, at guest.Attach) (*client.Process, error) {
	for {
		p, err := s.connection().Attach(ctx, at)
		if err == nil || sandbox.KindOf(err) != sandbox.Unavailable {
			return p, err
		}
		select {
		case <-time.After(redialPause):
		case <-ctx.Done():
			return nil, err
		case <-s.life.Done():
			return nil, s.ended()
		}
	}
}
