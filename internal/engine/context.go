package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of contexts.
const (
	maxContexts = 32 // of one sandbox
	maxRunEnv   = 30 // variables of one run in a context
	maxTurns    = 64 // runs that wait for the contexts of one sandbox: each holds a log, and no slot limits them

	readyTimeout     = 30 * time.Second // from the start of an interpreter to its first report
	interruptTimeout = 2 * time.Second  // for interrupted code to stop; then its interpreter is killed
	interruptPause   = 400 * time.Millisecond
)

// Context is an interpreter that keeps its state between runs, which run in it one after another. If the interpreter
// ends, its state is gone, and the next run starts a new one. Its methods are safe for concurrent use.
type Context struct {
	sandbox  *Sandbox
	name     string
	language sandbox.Language
	dir      string
	env      []string      // variables besides those of the sandbox
	tools    sandbox.Calls // of its runs, besides their own
	created  time.Time

	turns turns // of callers

	mu          sync.Mutex // guards all below
	waiting     int        // for their turn
	interpreter *interpreter
	starting    sandbox.ID   // of the interpreter that is about to replace it; else ""
	former      []sandbox.ID // of the last interpreters before it
	adding      *Run         // which has the turn, and adds packages
	runs        uint64
	deleted     bool
}

// ContextInfo describes a context.
type ContextInfo struct {
	ID       sandbox.ID // of the interpreter; a new one after a restart; "" before the first
	Name     string
	Language string
	Dir      string
	State    string // "new", "idle" or "busy"; "ended" if the next run starts a new interpreter
	Waiting  int    // runs
	Runs     uint64 // runs so far
	Created  time.Time
}

func (s *Sandbox) newContext(name string, language sandbox.Language, dir string) *Context {
	return &Context{sandbox: s, name: name, language: language, dir: dir, created: time.Now()}
}

// contextFor finds the context of a run. The default context of a language is made here; its interpreter starts with
// the run.
func (s *Sandbox) contextFor(name string, language *sandbox.Language) (*Context, error) {
	if name == "" {
		name = sandbox.DefaultContext
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.contexts {
		if (c.name == name || c.hasID(name)) && c.language.Name == language.Name {
			return c, nil
		}
	}
	if name != sandbox.DefaultContext {
		return nil, s.noContext(name, language.Name)
	}
	return s.addContext(name, *language, sandbox.Workspace)
}

// noContext is the error of an unknown context. The caller holds mu.
func (s *Sandbox) noContext(name, language string) error {
	err := &sandbox.Error{Kind: sandbox.NotFound, Op: "context " + printableName(name),
		Msg:   "no context has this name or id",
		Fixes: []sandbox.Hint{sandbox.FixListContexts}}
	for _, c := range s.contexts {
		if c.name == name || c.hasID(name) {
			err.Kind, err.Msg, err.Fix = sandbox.Invalid, "its language is "+c.language.Name+", not "+language,
				"use a context of another name"
		}
	}
	return err
}

// Context finds a context by its name or the id of its interpreter, or of one that it had before.
func (s *Sandbox) Context(name string) (*Context, error) {
	if err := s.Ended(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.contexts {
		if c.name == name || c.hasID(name) {
			return c, nil
		}
	}
	return nil, s.noContext(name, "")
}

func (c *Context) hasID(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.interpreter != nil && string(c.interpreter.id) == id || slices.Contains(c.former, sandbox.ID(id))
}

const maxFormer = 20 // ids of former interpreters by which a context is found

// remember keeps the id of an ended interpreter, which also finds the context.
func (c *Context) remember(id sandbox.ID) {
	c.former = append(c.former, id)
	c.former = c.former[max(0, len(c.former)-maxFormer):]
}

// Info describes the context now.
func (c *Context) Info() ContextInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := ContextInfo{Name: c.name, Language: c.language.Name, Dir: c.dir, Waiting: c.waiting, Runs: c.runs,
		Created: c.created, State: "new"}
	if c.interpreter == nil {
		return i
	}
	i.ID, i.State = c.interpreter.id, "idle"
	switch {
	case c.adding != nil:
		i.State = "busy"
	case c.interpreter.isGone():
		i.State = "ended"
	case c.interpreter.running() != nil:
		i.State = "busy"
	}
	return i
}

// wait waits for the caller's turn. The caller gives it back by done.
func (c *Context) wait(ctx context.Context) (done func(), err error) {
	t := c.turns.join()
	if !t.isReady() {
		if err := c.sandbox.queue(); err != nil {
			t.leave()
			return nil, err
		}
		defer c.sandbox.addWaiting(-1)
	}
	if err := c.await(ctx, t); err != nil {
		t.leave()
		return nil, err
	}
	return t.leave, nil
}

// await waits until a turn has come.
func (c *Context) await(ctx context.Context, t *turn) error {
	if t.isReady() {
		return nil
	}
	c.addWaiting(1)
	defer c.addWaiting(-1)
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Context) addWaiting(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting += n
}

// queue counts one more that waits for a context, or adds packages, unless there are too many. addWaiting(-1) takes it
// back.
func (s *Sandbox) queue() error {
	if s.addWaiting(1) {
		return nil
	}
	return s.queueFull()
}

func (s *Sandbox) queueFull() error {
	return &sandbox.Error{Kind: sandbox.Busy, Op: "sandbox " + s.label(), RetryAfter: leastRetryAfter,
		Msg: fmt.Sprintf("%d runs wait for a context or packages already", maxTurns),
		Fix: "try again when some have ended"}
}

// addWaiting counts one more or less that waits, unless there are too many.
func (s *Sandbox) addWaiting(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && s.runs.waiting+n > maxTurns {
		return false
	}
	s.runs.waiting += n
	return true
}

// alive returns the interpreter, and starts a new one if it has ended. The caller has the turn.
func (c *Context) alive(ctx context.Context) (*interpreter, error) {
	c.mu.Lock()
	in, deleted := c.interpreter, c.deleted
	c.mu.Unlock()
	if deleted {
		return nil, c.wasDeleted()
	}
	if in != nil && !in.isGone() {
		return in, nil
	}
	return c.replace(ctx)
}

// replace starts a new interpreter. Its id is on record before the caller learns that it runs: otherwise the next
// server would end the interpreter, and not know the context. The record is saved while the interpreter starts.
func (c *Context) replace(ctx context.Context) (*interpreter, error) {
	id := sandbox.NewID()
	c.setStarting(id)
	saved := make(chan error, 1)
	go func() { saved <- c.sandbox.recordContexts(nil) }()
	in, err := c.startInterpreter(ctx, id)
	unsaved := <-saved
	c.mu.Lock()
	deleted := c.deleted
	c.starting = ""
	if err == nil && unsaved == nil && !deleted {
		if c.interpreter != nil {
			c.remember(c.interpreter.id)
		}
		c.interpreter = in
	}
	c.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case deleted: // while it started
		in.kill()
		return nil, c.wasDeleted()
	case unsaved != nil:
		in.kill()
		return nil, unsaved
	}
	return in, nil
}

func (c *Context) setStarting(id sandbox.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starting = id
}

func (c *Context) wasDeleted() error {
	return &sandbox.Error{Kind: sandbox.NotFound, Op: "context " + c.name, Msg: "it was deleted"}
}

// Restart ends the interpreter, with what runs in it, and starts a new one.
func (c *Context) Restart(ctx context.Context) error {
	used, err := c.sandbox.use()
	if err != nil {
		return err
	}
	defer used()
	c.end()
	done, err := c.wait(ctx)
	if err != nil {
		return err
	}
	defer done()
	c.end()
	_, err = c.alive(ctx)
	return err
}

// Interrupt stops the code that runs, if any, as Control-C would. Its state stays.
func (c *Context) Interrupt(ctx context.Context) error {
	if err := c.sandbox.Ended(); err != nil {
		return err
	}
	return c.interruptFor(ctx, nil)
}

// add notes the run that adds packages; nil is none.
func (c *Context) add(x *Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adding = x
}

// interruptFor interrupts a run if it is the one that runs; nil is any. One that adds packages has no code to
// interrupt: it is canceled.
func (c *Context) interruptFor(ctx context.Context, x *Run) error {
	c.mu.Lock()
	in, adding := c.interpreter, c.adding
	c.mu.Unlock()
	if adding != nil && (x == nil || x == adding) {
		adding.Cancel()
		return nil
	}
	if in == nil {
		return nil
	}
	runs := in.running()
	if runs == nil || x != nil && runs != x {
		return nil
	}
	runs.noteSignal()
	return in.interrupt(ctx, guest.ScopeGroup)
}

// Delete ends the context. If it fails, the context stays.
func (c *Context) Delete(ctx context.Context) error {
	if err := c.sandbox.Ended(); err != nil {
		return err
	}
	err := c.sandbox.recordContexts(c) // first, or the next server might find it without its variables
	if err == nil {
		c.leave()
	}
	return err
}

// leave ends the context, which is not on record.
func (c *Context) leave() {
	c.setDeleted()
	s := c.sandbox
	s.mu.Lock()
	s.contexts = slices.DeleteFunc(s.contexts, func(other *Context) bool { return other == c })
	s.mu.Unlock()
	c.end()
}

func (c *Context) setDeleted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted = true
}

// end ends what runs: it kills the interpreter and waits for its end.
func (c *Context) end() {
	c.mu.Lock()
	in, adding := c.interpreter, c.adding
	c.mu.Unlock()
	if adding != nil {
		adding.Cancel()
	}
	if in != nil {
		in.kill()
	}
}

// recordContexts puts the contexts on record, without one that is deleted thereby; nil is none.
func (s *Sandbox) recordContexts(deleted *Context) error {
	list := sync.OnceValue(func() (list []sandbox.ContextRecord) {
		for _, c := range s.contexts {
			if r := c.record(); r.ID != "" && c != deleted {
				list = append(list, r)
			}
		}
		return list
	})
	return s.amendThen(func(r *sandbox.Record) { r.Contexts = list() }, func() {
		if deleted != nil { // before another change puts it on record again
			deleted.setDeleted()
		}
	})
}

// record returns the context's record. Its ID is "" before the first interpreter, and once the context is deleted.
func (c *Context) record() sandbox.ContextRecord {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := sandbox.ContextRecord{ID: c.starting, Name: c.name, Language: c.language.Name, Dir: c.dir, Env: c.env,
		Tools: withoutFunctions(c.tools), Created: c.created, Runs: c.runs, Former: slices.Clone(c.former)}
	switch {
	case c.deleted:
		r.ID = ""
	case c.interpreter == nil:
	case r.ID == "":
		r.ID = c.interpreter.id
	default:
		r.Former = append(r.Former, c.interpreter.id)
	}
	return r
}

// startInterpreter starts the driver and waits for its first report. A cancellation does not cut the start, or the
// guest might start an interpreter that the engine does not know: the start finishes first, then the interpreter is
// killed.
func (c *Context) startInterpreter(ctx context.Context, id sandbox.ID) (*interpreter, error) {
	s := c.sandbox
	asDriver := c.language
	asDriver.Argv = func(program, _ string) []string { return c.language.Driver.Argv(program) }
	p := &plan.Run{Spec: s.spec(), Language: &asDriver,
		Argv: asDriver.Argv(asDriver.Programs[0], ""), Dir: c.dir,
		Env: s.engine.baseRules().Env(s.spec(), &c.language, asDriver.Env, c.language.Driver.Env, c.env)}
	x := s.newRun(job{Run: p, id: id}, RunRequest{})
	stream, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(s.life, cut)()
	starting, cancel := context.WithTimeoutCause(ctx, readyTimeout, &sandbox.Error{Kind: sandbox.Unavailable,
		Op: "start " + c.language.Name, Msg: "the interpreter was not ready in " + readyTimeout.String()})
	defer cancel()
	proceed := context.AfterFunc(starting, func() { s.spawn(func() { x.kill(stream, cut) }) })
	defer proceed()
	process, err := x.startAs(stream, guest.Start{
		ID: string(x.id), Argv: p.Argv, Env: p.Env, Dir: p.Dir, User: p.Spec.User, Buffer: channelBuffer,
		Channel: true})
	if err != nil {
		if sandbox.KindOf(err) == sandbox.Unavailable {
			_, _ = s.endProcess(x.id, false) // an error means that nothing was started, or that the sandbox ends
		}
		return nil, cmp.Or(s.Ended(), context.Cause(starting), startFailed(err))
	}
	x.attached(process)
	in := newInterpreter(c, x.id, process)
	if !s.spawn(in.watch) {
		return nil, s.Ended()
	}
	select {
	case <-in.ready:
		if proceed() {
			return in, nil
		}
		<-in.gone
	case <-in.gone:
	}
	return nil, cmp.Or(s.Ended(), context.Cause(starting), error(&sandbox.Error{Kind: sandbox.Unavailable,
		Op: "start " + c.language.Name, Msg: "the interpreter ended at once: " + in.lastWords()}))
}

// startFailed is why an interpreter could not be started, as an error: there is no run to end as failed.
func startFailed(err error) error {
	var refused *notStarted
	if errors.As(err, &refused) {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "start the interpreter", Msg: refused.line}
	}
	return err
}
