package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of taking over what an earlier server left.
const (
	resumeTimeout = 30 * time.Second // for one sandbox
	resumeAtOnce  = 8
	resumePause   = 200 * time.Millisecond // before another try at a box that another process looks at
)

// Resume takes over the living sandboxes of an earlier server, by the records that it left. It returns why each one is gone that is;
// such a sandbox is remembered, and asking for it says the same. Call it before any other sandbox is made.
func (e *Engine) Resume(ctx context.Context, records []sandbox.Record) (gone []sandbox.Record) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards gone
	places := make(chan struct{}, resumeAtOnce)
	for _, record := range records {
		if !record.Ended.IsZero() {
			e.living.mu.Lock()
			e.living.remember(record)
			e.living.mu.Unlock()
			continue
		}
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
			defer cancel()
			err := e.resume(ctx, record)
			if err == nil {
				return
			}
			record.Ended, record.Reason = time.Now(), "it did not outlive a restart of the server: "+err.Error()
			e.living.mu.Lock()
			e.living.remember(record)
			e.living.mu.Unlock()
			if e.config.Living.Store != nil {
				if err := e.config.Living.Store.Save(tombstone(record)); err != nil {
					e.log.Warn("could not record the end of a sandbox", "sandbox", record.ID, "err", err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, record)
		})
	}
	all.Wait()
	e.sweepPackages()
	return gone
}

// resume takes over one sandbox.
func (e *Engine) resume(ctx context.Context, record sandbox.Record) error {
	i := slices.IndexFunc(e.config.Backends, func(b sandbox.Backend) bool { return b.Name() == record.Backend })
	if i < 0 {
		return fmt.Errorf("this server has no backend %s", record.Backend)
	}
	box, err := e.config.Backends[i].Reattach(ctx, record.ID)
	for sandbox.KindOf(err) == sandbox.Busy && ctx.Err() == nil {
		time.Sleep(resumePause)
		box, err = e.config.Backends[i].Reattach(ctx, record.ID)
	}
	if err != nil {
		return err
	}
	s := newSandbox(e, e.config.Backends[i], record)
	s.box = box
	err = s.openNetwork(ctx)
	if err == nil {
		err = s.takeOver(ctx)
	}
	if err != nil {
		s.failed = err
		s.endLife(&endedError{err.Error()})
		close(s.made) // whoever wants to end it need not wait
		s.stopClocks()
		s.work.Wait()
		s.guest.close()
		s.closeNetwork()
		return errors.Join(err, box.Close())
	}
	e.boxes.Add(1)
	t := e.living
	t.mu.Lock()
	t.enter(s)
	t.mu.Unlock()
	s.observeSpec(SandboxResumed)
	close(s.made)
	return nil
}

// takeOver connects to the guest and finds its contexts and executions.
func (s *Sandbox) takeOver(ctx context.Context) error {
	entries, err := s.begin(ctx)
	if err != nil {
		return err
	}
	s.renew(s.record.Spec.Lifetime.GuestLease())
	var processes []guest.ProcessInfo
	err = s.call(ctx, func(c *client.Client) (err error) {
		processes, err = c.List(ctx)
		return err
	})
	if err != nil {
		return err
	}
	r := &takeover{sandbox: s, left: map[string]guest.ProcessInfo{}}
	for _, p := range processes {
		r.left[p.ID] = p
	}
	s.restoreContexts()
	var unfinished []*Execution
	for _, entry := range entries {
		if x := r.execution(ctx, entry); x != nil {
			unfinished = append(unfinished, x)
		}
	}
	r.contexts(unfinished)
	for _, x := range unfinished {
		r.goOn(x)
	}
	r.endRest()
	return nil
}

// takeover is what is known while a sandbox is taken over.
type takeover struct {
	sandbox *Sandbox
	left    map[string]guest.ProcessInfo // processes that nobody has claimed yet
}

// resumed is what is known of an execution that began under an earlier server.
type resumed struct {
	last        eventlog.Last
	reported    uint64 // offset of the context's channel up to which the log has its reports
	waits       bool   // for its packages, before it begins
	began       *begun // of what waits; nil if it had not begun
	interpreter *interpreter
}

// attach follows the process from where the log ends.
func (r *resumed) attach(ctx context.Context, x *Execution) (*client.Process, error) {
	return x.sandbox.attach(ctx, guest.Attach{ID: string(x.id), Stdout: r.last.Stdout, Stderr: r.last.Stderr})
}

// execution rebuilds an execution from its log. A finished one is only remembered.
func (r *takeover) execution(ctx context.Context, entry eventlog.Entry) *Execution {
	s := r.sandbox
	var h logHead
	if entry.Err != nil || json.Unmarshal(entry.Head, &h) != nil {
		return nil
	}
	log, _, err := eventlog.Open(s.logs.File(entry.ID))
	if err != nil {
		return nil
	}
	x, err := s.planned(Exec{ID: entry.ID, Request: h.request(), Interactive: h.Interactive, Detached: h.Detached})
	if err != nil {
		s.engine.log.Warn("cannot go on with an execution", "sandbox", s.id, "execution", entry.ID, "err", err)
		if !log.Last().Finished { // so that its log is removed in its turn
			_ = log.Finish(encodeFailure(err))
			_, _ = s.logs.Retire(entry.ID, log.Last().Bytes)
		}
		return nil
	}
	if c := &s.engine.config.Checks; c.Find != nil && c.Mode != sandbox.ChecksOff {
		s.engine.lookAtAll(&x.job) // for its result: it runs, whatever is found
	}
	x.log.Log, x.began, x.resumed = log, h.Began, &resumed{last: log.Last(), waits: h.Packages}
	x.output = newOutput(x.Spec.Limits.OutputBytes, nil)
	if x.asks.Detached {
		x.output.keepPart()
	}
	if h.Context != "" {
		if x.context = s.contextNamed(h.Context, x.Language.Name); x.context == nil { // it was deleted
			x.context = s.newContext(h.Context, *x.Language, sandbox.Workspace)
		}
	}
	if err := x.replay(ctx); err != nil {
		s.engine.log.Warn("cannot read the log of an execution", "sandbox", s.id, "execution", entry.ID, "err", err)
	}
	x.output.forward, x.output.gaps = x.take, true
	if !x.resumed.last.Finished {
		return x
	}
	if x.result == nil && x.failure == nil {
		x.failure = &sandbox.Error{Kind: sandbox.Unavailable, Op: "execution " + string(x.id), Msg: "its log is damaged"}
	}
	x.log.retired = true // by the listing of the folder
	x.slim()
	close(x.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executions.add(x)
	s.executions.running--
	return nil
}

// restoreContexts makes the contexts on record, without their interpreters.
func (s *Sandbox) restoreContexts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, record := range s.record.Contexts {
		language, err := s.engine.Language(record.Language)
		if err != nil {
			continue
		}
		if c, err := s.addContext(record.Name, language, record.Dir); err == nil {
			c.created, c.runs = record.Created, record.Runs
		}
	}
}

// contextNamed finds a context; nil is none.
func (s *Sandbox) contextNamed(name, language string) *Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.contexts {
		if c.name == name && c.language.Name == language {
			return c
		}
	}
	return nil
}

// errReplayed ends a replay at the end of what is there.
var errReplayed = errors.New("replayed")

// replay takes what the log has into the execution.
func (x *Execution) replay(ctx context.Context) error {
	last := x.resumed.last.ID
	if last == 0 {
		return nil
	}
	err := x.log.Follow(ctx, 0, func(e eventlog.Event) error {
		x.replayEvent(e)
		if e.ID == last {
			return errReplayed
		}
		return nil
	})
	if errors.Is(err, errReplayed) {
		return nil
	}
	return err
}

func (x *Execution) replayEvent(e eventlog.Event) {
	decoded := Event{Kind: e.Kind, Data: e.Data}
	switch e.Kind {
	case eventlog.Stdout:
		x.output.stdout.replay(e.Data, e.Offset-x.base.Stdout)
		return
	case eventlog.Stderr:
		x.output.stderr.replay(e.Data, e.Offset-x.base.Stderr)
		return
	case eventlog.Began:
		var b begun
		if json.Unmarshal(e.Data, &b) == nil {
			x.resumed.began, x.base = &b, b.Base
			x.began = x.began.Add(e.Time) // until then it waited
			x.log.began.Store(e.ID)
		}
		return
	}
	if decoded.decode() != nil {
		return
	}
	switch {
	case decoded.Shown != nil:
		x.shown = append(x.shown, *decoded.Shown)
		x.resumed.reported = e.Offset
	case decoded.Exception != nil:
		x.raised = decoded.Exception
		x.resumed.reported = e.Offset
	case decoded.Ended != nil:
		if decoded.Ended.Failure != "" {
			x.failure = &sandbox.Error{Op: "execute", Msg: decoded.Ended.Failure}
			return
		}
		x.result = &sandbox.Result{ID: x.id, Status: decoded.Ended.Status, ExitCode: decoded.Ended.ExitCode}
	}
}

// contexts finds the interpreters of the contexts on record, and the code that runs in them.
func (r *takeover) contexts(unfinished []*Execution) {
	s := r.sandbox
	for _, record := range s.record.Contexts {
		c := s.contextNamed(record.Name, record.Language)
		if c == nil {
			continue
		}
		p, lives := r.left[string(record.ID)]
		delete(r.left, string(record.ID))
		c.former = slices.Clone(record.Former)
		if lives && !p.Exited {
			r.interpreter(c, p, unfinished)
		} else {
			c.follow(record.ID)
		}
	}
}

// interpreter goes on with an interpreter, from the oldest report that its guest keeps.
func (r *takeover) interpreter(c *Context, p guest.ProcessInfo, unfinished []*Execution) {
	s := r.sandbox
	at := guest.Attach{ID: p.ID, Stdout: p.Stdout, Stderr: p.Stderr}
	var runs *Execution
	for _, x := range unfinished {
		if b := x.resumed.began; b != nil && string(b.Interpreter) == p.ID {
			runs = x
			at.Stdout, at.Stderr = max(b.Base.Stdout, x.resumed.last.Stdout), max(b.Base.Stderr, x.resumed.last.Stderr)
		}
	}
	process, err := s.attach(s.life, at)
	if err != nil {
		return
	}
	in := newInterpreter(c, sandbox.ID(p.ID), process)
	in.first = true
	close(in.ready)
	c.interpreter = in
	if runs != nil {
		runs.resumed.interpreter, in.current = in, runs
	}
	s.work.Go(in.watch)
	if runs == nil { // code that nobody waits for may run, of a client that went with its server
		s.work.Go(func() { _ = in.interrupt(s.life) })
	}
}

// goOn goes on with an execution, or ends it if its caller went with the server.
func (r *takeover) goOn(x *Execution) {
	s := r.sandbox
	_, lives := r.left[string(x.id)]
	delete(r.left, string(x.id))
	switch {
	case x.context != nil && x.resumed.interpreter == nil, x.context == nil && !lives:
		x.finish(lostAtRestart(x))
		x.retire()
		x.slim()
		close(x.done)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.executions.add(x)
		s.executions.running--
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executions.add(x)
	var ctx context.Context
	ctx, x.canceled = context.WithCancel(context.Background())
	if !x.asks.Detached {
		x.canceled()
	}
	s.work.Go(func() { x.carryOut(ctx, func() {}) }) // it takes no slot: it ran on meanwhile
}

// lostAtRestart is the result of an execution whose process was gone when the next server came.
func lostAtRestart(x *Execution) *sandbox.Result {
	r := &sandbox.Result{ID: x.id, Status: sandbox.StatusLost, ExitCode: -1, Hints: []sandbox.Hint{{Code: sandbox.HintLost, ExitCode: -1}}}
	if (x.context != nil || x.resumed.waits) && x.resumed.began == nil {
		r.Status, r.Hints = sandbox.StatusCanceled, []sandbox.Hint{{Code: sandbox.HintNotStarted}}
	}
	return r
}

// endRest ends processes that no log and no record knows: commands whose callers went with their server.
func (r *takeover) endRest() {
	s := r.sandbox
	for id := range r.left {
		s.work.Go(func() {
			s.endProcess(sandbox.ID(id))
			s.forgetProcess(sandbox.ID(id))
		})
	}
}
