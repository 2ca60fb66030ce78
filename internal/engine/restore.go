package engine

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// restore makes the sandbox available, with its contexts and runs.
func (r *takeover) restore(ctx context.Context) {
	s := r.sandbox
	s.restoreContexts()
	accepted := acceptedAt(r.entries)
	slices.SortStableFunc(r.entries, func(a, b eventlog.Entry) int { return accepted[a.ID].Compare(accepted[b.ID]) })
	var unfinished []*Run
	for _, entry := range r.entries {
		if x := r.run(ctx, entry); x != nil {
			unfinished = append(unfinished, x)
		}
	}
	r.contexts(unfinished)
	var pending []*Run
	for _, x := range unfinished {
		if !r.goOn(x) {
			pending = append(pending, x)
		}
	}
	ended := r.endRest()
	for _, x := range pending {
		r.start(x, ended)
	}
	s.sortRuns(accepted)
	r.repairPackages()
	s.startTimers()
	s.work.Go(s.watch)
	s.observeSpec(SandboxResumed)
	close(s.made)
	s.abandon() // there is nothing to take over any more
}

// acceptedAt returns when the runs of logs were accepted.
func acceptedAt(entries []eventlog.Entry) map[sandbox.ID]time.Time {
	at := map[sandbox.ID]time.Time{}
	for _, e := range entries {
		var h logHead
		if json.Unmarshal(e.Head, &h) == nil {
			at[e.ID] = h.Began
		}
	}
	return at
}

// sortRuns lists the runs in the order in which they were accepted.
func (s *Sandbox) sortRuns(accepted map[sandbox.ID]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.runs.order, func(a, b sandbox.ID) int { return accepted[a].Compare(accepted[b]) })
}

// resumed describes a run that began under an earlier server.
type resumed struct {
	last        eventlog.Last
	reported    uint64 // offset of the context's channel up to which the log has its reports
	waits       bool   // for its packages, before it begins
	began       *begun // of what waits; nil if it had not begun
	saved       bool   // its request is whole
	interpreter *interpreter
	rest        []byte // of its request or of the answers, which the interpreter lacks
	accepted    time.Time
	exited      bool // its process has ended by itself
}

// attach follows the process from where the log ends.
func (r *resumed) attach(ctx context.Context, x *Run) (*client.Process, error) {
	return x.sandbox.attach(ctx, guest.Attach{ID: string(x.id), Stdout: r.last.Stdout, Stderr: r.last.Stderr})
}

// run rebuilds a run from its log. A finished one is only remembered.
func (r *takeover) run(ctx context.Context, entry eventlog.Entry) *Run {
	s := r.sandbox
	var h logHead
	if entry.Err != nil || json.Unmarshal(entry.Head, &h) != nil {
		return nil
	}
	log, err := s.logs.Open(entry.ID)
	if err != nil {
		return nil
	}
	req := RunRequest{ID: entry.ID, Request: h.request(), Interactive: h.Interactive, Background: h.Background}
	if h.Terminal {
		req.Terminal = &TerminalSize{}
	}
	saved := !log.Last().Finished && s.loadRequest(&req)
	rules := s.engine.rulesOf(s.owner)
	rules.Max = sandbox.Limits{} // it was accepted: this server may have lower limits for further runs
	x, err := s.plannedBy(&rules, req)
	if err != nil {
		s.engine.log.Warn("cannot continue a run", "sandbox", s.id, "run", entry.ID, "err", err)
		if !log.Last().Finished { // so that its log is removed in its turn
			_ = log.Finish(encodeFailure(err))
			_, _ = s.logs.Retire(entry.ID, log.Last().Bytes)
			_ = os.Remove(s.requestFile(entry.ID))
		}
		return nil
	}
	h.limit(&x.Spec.Limits)
	if c := &s.engine.config.Checks; c.Find != nil && c.Mode != sandbox.ChecksOff {
		s.engine.lookAtAll(&x.job) // for its result: it runs, whatever is found
	}
	x.log.Log, x.began, x.resumed = log, h.Began, &resumed{last: log.Last(), waits: h.Packages,
		saved: saved, accepted: h.Began}
	x.kept = true // or nothing is there to remove
	x.output = x.newOutput()
	x.output.forward = nil // what is replayed is in the log
	if h.Context != "" {
		if x.context = s.contextNamed(h.Context, x.Language.Name); x.context == nil { // it was deleted
			x.context = s.newContext(h.Context, *x.Language, sandbox.Workspace)
		}
		if x.calls == nil && x.Language.Driver != nil && x.Language.Driver.Calls {
			x.calls = noTools()
		}
	}
	if err := x.replay(ctx); err != nil {
		s.engine.log.Warn("cannot read the log of a run", "sandbox", s.id, "run", entry.ID, "err", err)
	}
	x.output.forward, x.output.gaps = x.take, true
	if b := x.resumed.began; b != nil {
		r.begun = append(r.begun, *b)
	}
	if !x.resumed.last.Finished {
		return x
	}
	if x.result == nil && x.failure == nil {
		x.failure = &sandbox.Error{Kind: sandbox.Unavailable, Op: "run " + string(x.id), Msg: "its log is damaged"}
	}
	x.log.retired.Store(true) // by the listing of the folder
	x.leaveEnded()
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
			c.created, c.runs, c.env, c.tools = record.Created, record.Runs, record.Env, record.Tools
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

// errReplayed ends a replay at the last event.
var errReplayed = errors.New("replayed")

// replay restores the run from its log.
func (x *Run) replay(ctx context.Context) error { return x.eachLogged(ctx, x.replayEvent) }

// eachLogged hands the events of an earlier server to take, also in a server that is stopping: else a run that goes on
// would be lost.
func (x *Run) eachLogged(ctx context.Context, take func(eventlog.Event)) error {
	last := x.resumed.last.ID
	if last == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTimeout)
	defer cancel()
	err := x.log.Follow(ctx, 0, func(e eventlog.Event) error {
		take(e)
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

func (x *Run) replayEvent(e eventlog.Event) {
	if x.resumed.last.Finished && e.Kind != eventlog.Began && e.Kind != eventlog.Done {
		return // a start of the server reads gigabytes of these
	}
	decoded := Event{Kind: e.Kind, Data: e.Data}
	switch e.Kind {
	case eventlog.Result: // the caller has left, or reads the log
		x.resumed.reported = e.Offset
		return
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
			if x.calls != nil {
				x.calls.after = b.Request + b.Size
			}
		}
		return
	case eventlog.Call, eventlog.Answered:
		x.recall(e)
		return
	}
	if decoded.decode() != nil {
		return
	}
	switch {
	case decoded.Exception != nil:
		x.exception = decoded.Exception
		x.resumed.reported = e.Offset
	case decoded.Ended != nil:
		x.process.pid = decoded.Ended.pid
		if decoded.Ended.Failure != "" {
			x.failure = &sandbox.Error{Op: "execute", Msg: decoded.Ended.Failure}
			return
		}
		x.result = &sandbox.Result{ID: x.id, Status: decoded.Ended.Status, ExitCode: decoded.Ended.ExitCode}
	}
}

// contexts finds the interpreters of the contexts on record, and the code that runs in them.
func (r *takeover) contexts(unfinished []*Run) {
	s := r.sandbox
	for _, record := range s.record.Contexts {
		c := s.contextNamed(record.Name, record.Language)
		if c == nil {
			continue
		}
		c.former = slices.Clone(record.Former)
		c.runs = max(c.runs, r.counted(&record))
		if p, lives := r.left[string(record.ID)]; lives && !p.Exited {
			err := r.interpreter(c, p, unfinished)
			if err == nil {
				delete(r.left, string(record.ID))
				continue
			}
			s.engine.log.Warn("cannot keep the interpreter of a context", "sandbox", s.id, "context", c.name, "err", err)
		}
		c.interpreter = endedInterpreter(c, record.ID) // endRest ends what is left of it
	}
}

// counted returns the runs of a context up to the last one in a log: its record is older.
func (r *takeover) counted(c *sandbox.ContextRecord) (runs uint64) {
	for _, b := range r.begun {
		if b.Interpreter == c.ID || slices.Contains(c.Former, b.Interpreter) {
			runs = max(runs, b.Runs)
		}
	}
	return runs
}

// interpreter attaches to an interpreter, from the last report in a log, or else the oldest that its guest keeps.
func (r *takeover) interpreter(c *Context, p guest.ProcessInfo, unfinished []*Run) error {
	s := r.sandbox
	at := guest.Attach{ID: p.ID, Stdout: p.Stdout, Stderr: p.Stderr}
	var current *Run
	for _, x := range unfinished {
		if b := x.resumed.began; b != nil && string(b.Interpreter) == p.ID {
			current = x
			at.Stdout, at.Stderr = max(b.Base.Stdout, x.resumed.last.Stdout), max(b.Base.Stderr, x.resumed.last.Stderr)
			at.Channel = x.resumed.reported // where a report begins; the guest may lack the beginning of the one before
		}
	}
	process, err := s.attach(s.life, at)
	if err != nil {
		return err
	}
	in := newInterpreter(c, sandbox.ID(p.ID), process)
	in.loadSplit()
	if err := s.call(s.life, func(c *client.Client) (err error) {
		in.at.sent, err = c.Input(s.life, guest.Input{ID: p.ID}) // waits for what the earlier server sent
		return err
	}); err != nil {
		process.Close()
		return err
	}
	if current != nil {
		begun, whole := current.awaits(in.at.sent)
		if !whole {
			process.Close()
			return errors.New("it got only a part of a request, which would spoil the next")
		}
		if begun && current.resumed.rest == nil {
			if current.resumed.rest, err = current.restOfAnswers(s.life, in.at.sent); err != nil {
				process.Close()
				return err
			}
		}
		if !begun {
			current = nil
		}
	}
	if current == nil {
		if err := in.completeQuestion(); err != nil {
			process.Close()
			return err
		}
	}
	in.first = true
	close(in.ready)
	c.interpreter = in
	if current != nil {
		current.resumed.interpreter, in.current = in, current
		current.joinContext() // before any other run
	}
	s.work.Go(in.watch)
	return nil
}

// goOn continues a run, or ends it if its caller left with the server. It returns false for a run that is yet to start.
func (r *takeover) goOn(x *Run) bool {
	process, lives := r.left[string(x.id)]
	delete(r.left, string(x.id))
	x.process.pid, x.resumed.exited = process.PID, process.Exited
	if x.context != nil {
		lives = x.resumed.interpreter != nil
	}
	switch {
	case lives:
		if !x.slotless() { // it takes no slot: it ran on meanwhile
			x.release = x.sandbox.holdWeight()
		}
		x.enterAgain(x.carryOut)
		return true
	case x.req.Background && x.resumed.saved && (x.context == nil || x.resumed.began == nil):
		return false
	}
	result := lostAtRestart(x)
	if s := x.sandbox; x.req.Background && result.Status == sandbox.StatusLost {
		s.engine.log.Warn("a run was lost at a restart", "sandbox", s.id, "run", x.id, "process", process.PID,
			"saved", x.resumed.saved)
	}
	x.finish(result)
	x.leaveEnded()
	return true
}

// start starts a run that an earlier server accepted and did not start. An attempt of it is over once ended returns.
func (r *takeover) start(x *Run, ended func()) {
	err := x.planAgain()
	if err != nil {
		x.failure = err
		x.fail(err)
		x.leaveEnded()
		return
	}
	x.resumed, x.repeated = nil, true
	x.output = x.newOutput()
	x.enterAgain(func(ctx context.Context) {
		ended()
		x.carryOut(ctx)
	})
}

// planAgain repeats what start did for the earlier server, and finds the context, which may not be on record.
func (x *Run) planAgain() (err error) {
	if x.context != nil {
		if x.context, err = x.sandbox.contextFor(x.req.Context, x.Language); err != nil {
			return err
		}
	}
	if x.checked.mode, err = x.sandbox.engine.config.Checks.modeOf(x.Request.Checks); err != nil || x.forbidden() {
		return err
	}
	return x.planPackages()
}

// enterAgain makes the run of an earlier server one of the sandbox's. A caller that left with its server has canceled
// it, unless its process has ended: that caller may have the answer.
func (x *Run) enterAgain(carryOut func(context.Context)) {
	s := x.sandbox
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs.add(x)
	x.joinContext()
	_ = x.joinQueue(math.MaxInt)                      // it was accepted
	x.counted = s.engine.living.runs.Take(s.owner, 1) // an earlier server had others; this one goes on in any case
	var ctx context.Context
	ctx, x.canceled = context.WithCancel(context.Background())
	if !x.req.Background && !x.resumed.exited {
		x.canceled()
	}
	s.work.Go(func() { carryOut(ctx) })
}

// leaveEnded remembers the run of an earlier server that has ended.
func (x *Run) leaveEnded() {
	s := x.sandbox
	x.calls.close()
	x.dropRequest()
	x.retire()
	x.slim()
	close(x.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs.add(x)
	s.runs.running--
}

// lostAtRestart is the result of a run whose process was gone when the next server came.
func lostAtRestart(x *Run) *sandbox.Result {
	r := &sandbox.Result{ID: x.id, Status: sandbox.StatusLost, ExitCode: -1,
		Hints: []sandbox.Hint{sandbox.HintLost{ExitCode: -1}}}
	if (x.context != nil || x.resumed.waits) && x.resumed.began == nil {
		r.Status, r.Hints = sandbox.StatusCanceled, []sandbox.Hint{sandbox.HintNotStarted}
	}
	return r
}

// repairPackages has the sandbox see the packages on record, where its server was killed while it added some.
func (r *takeover) repairPackages() {
	s, e := r.sandbox, r.sandbox.engine
	root, err := e.packagesOf(s.id)
	if err != nil || !s.takesPackages() {
		return
	}
	s.mu.Lock()
	added := s.record.Packages // a repair replaces the map
	s.mu.Unlock()
	repaired := map[string]bool{} // several languages may share an installer
	for _, l := range e.config.Languages {
		in := l.Installer
		if in == nil || repaired[in.Name] || len(added[in.Name].Requirements) == 0 ||
			e.config.Packages.Linked(filepath.Join(root, packageFolder(in))) {
			continue
		}
		repaired[in.Name] = true
		x := s.newRun(job{Run: &plan.Run{Spec: s.spec(), Language: &l, Installs: &l}, id: sandbox.NewID(),
			plain: true}, RunRequest{})
		x.adding.asked = &sandbox.Packages{} // beside those on record
		s.work.Go(func() {
			if err := x.installPackages(s.life); err != nil && s.life.Err() == nil {
				e.log.Warn("could not repair the packages of a sandbox; the next addition does", "sandbox", s.id,
					"err", err)
			}
		})
	}
}

// endRest ends the processes that no run and no context claimed: commands whose callers left with their server, and
// interpreters that could not be attached to. The returned function waits for their end.
func (r *takeover) endRest() (wait func()) {
	s := r.sandbox
	var all sync.WaitGroup
	for id := range r.left {
		all.Add(1)
		s.work.Go(func() {
			defer all.Done()
			_, _ = s.endProcess(sandbox.ID(id), true) // an error means that it is gone, or that the sandbox ends
			s.forgetProcess(sandbox.ID(id))
		})
	}
	return all.Wait
}
