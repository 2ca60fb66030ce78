package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Sandbox is a sandbox, one-shot or living. Its methods are safe for concurrent use. One that has ended answers with
// NotFound and the reason.
type Sandbox struct {
	engine  *Engine
	backend sandbox.Backend
	oneShot bool // it ends with its run: nothing of it is on record, on disk or in the table
	id      sandbox.ID
	ownedName
	created time.Time

	boxed // valid once made is closed, unless failed

	creation
	logs *eventlog.Folder

	// life ends with the sandbox, or when the server leaves it: its cause is errDetached or an *endedError.
	life    context.Context
	endLife context.CancelCauseFunc
	work    goroutines
	remove  func() error // removes the sandbox after life has ended; later calls wait for the first
	locks   locks

	mu       sync.Mutex // guards all below
	record   sandbox.Record
	runs     runs
	contexts []*Context
	timers   timers
	last     measured
}

// creation is the state of building or taking over a sandbox.
type creation struct {
	made    chan struct{} // closed once it is ready, or could not be made
	failed  error         // why it could not be made; valid once made is closed
	shared  bool          // a further call to Create has found it by its name; the table's mu guards it
	pending error         // why it was not taken over from an earlier server yet; the sandbox's mu guards it

	abandon context.CancelFunc // ends the attempts to take it over
}

// locks order what else could undo each other.
type locks struct {
	saving     sync.Mutex      // held while a record is saved, so that an older one never replaces a newer
	saved      atomic.Int64    // bytes of all records that were saved
	last       atomic.Int64    // bytes of the last one
	compared   atomic.Int64    // ns in which open connections were compared with new rules
	ended      *sandbox.Record // of the end, once the store has it: no other replaces it; saving guards it
	updating   sync.Mutex      // held by Update, so that the gate and the record have the same policy
	installing chan struct{}   // has a value while packages are added
}

var errDetached = errors.New("the server is stopping; the sandbox goes on, and the next server takes it over")

// endedError is why a sandbox ended.
type endedError struct{ reason string }

func (e *endedError) Error() string { return e.reason }

// Reasons of an end that is not a failure, in the words of Record.Reason.
const (
	reasonRemoved = "it was removed"
	reasonClosed  = "its server stopped, which keeps no sandboxes"
)

// newSandbox returns a sandbox without a box.
func newSandbox(e *Engine, b sandbox.Backend, record sandbox.Record) *Sandbox {
	s := &Sandbox{engine: e, backend: b, creation: creation{made: make(chan struct{})}, runs: newRuns()}
	s.become(record)
	s.guest.dialing = make(chan struct{}, 1)
	s.life, s.endLife = context.WithCancelCause(context.Background())
	s.locks.installing = make(chan struct{}, 1)
	s.remove = sync.OnceValue(s.removeOnce)
	return s
}

// become sets the record of a sandbox that is not in the table yet.
func (s *Sandbox) become(record sandbox.Record) {
	s.id, s.ownedName, s.created, s.record = record.ID, ownedName{record.Owner, record.Name}, record.Created, record
	s.oneShot, s.timers.used = !record.Spec.Lifetime.Living, time.Now()
	if s.passage != nil {
		s.passage.SetOwner(record.Owner)
	}
}

// spec returns the spec of the sandbox. Update changes it.
func (s *Sandbox) spec() sandbox.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.Spec
}

// effective returns the enforced policy; before there is a box, the requested one.
func (s *Sandbox) effective() sandbox.Policy {
	if !s.oneShot && !s.isMade() {
		spec := s.spec()
		return sandbox.Policy{Limits: spec.Limits, Network: spec.Network, User: spec.User, Commands: spec.Commands}
	}
	p := s.box.Effective()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passage != nil { // the gate enforces the rules, which Update changes
		p.Network = s.record.Spec.Network
	}
	for _, name := range sandbox.LimitNames {
		if v := s.record.Resized.Get(name); v != 0 {
			p.Limits.Set(name, v)
		}
	}
	return p
}

// make builds the box in the background. It does not end with the call that began it: others may wait for the same
// sandbox.
func (s *Sandbox) make(ctx context.Context) {
	s.work.Go(func() {
		defer close(s.made)
		defer func() {
			if p := recover(); p != nil {
				s.failed = s.engine.panicked("create", p)
			}
			if s.failed != nil {
				if s.box != nil {
					s.closeBox()
				}
				if s.logs != nil {
					s.failed = errors.Join(s.failed, s.removeLogs())
				}
				s.failed = errors.Join(s.failed, s.engine.removePackages(s.id))
				s.engine.living.leave(s, sandbox.Record{})
				s.endLife(&endedError{"it could not be made"})
			}
		}()
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(s.engine.stop, cancel)()
		if s.failed = s.makeInTurn(ctx); s.failed == nil {
			s.observeSpec(SandboxCreated)
		}
	})
}

// makeInTurn makes the sandbox when it is its owner's turn, unless it has a warm box: as many boxes are built at a time
// as there are slots. The kernel's work for a box is charged to nobody, and would delay the runs of others.
func (s *Sandbox) makeInTurn(ctx context.Context) error {
	if s.box == nil {
		making, owner := s.engine.living.making, s.owner
		if err := making.acquire(ctx, owner, func() {}); err != nil {
			return err
		}
		began := time.Now()
		defer func() { making.release(owner, time.Since(began)) }()
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	return s.tryMake(ctx)
}

func (s *Sandbox) tryMake(ctx context.Context) (err error) {
	if err := s.engine.makePackages(s.spec()); err != nil {
		return err
	}
	if s.logs, _, err = s.openLogs(); err != nil { // before the box, which is on record later (Engine.sweep)
		return err
	}
	warm := s.box != nil
	if !warm {
		if err := s.build(ctx); err != nil {
			return fmt.Errorf("create the sandbox: %w", err)
		}
	}
	if warm || !s.leased() {
		if err := s.promote(ctx); err != nil {
			return err
		}
	}
	return s.begin(ctx)
}

// begin makes a box a sandbox that can be used: connected, on record, with its timers running.
func (s *Sandbox) begin(ctx context.Context) error {
	_, err := s.connect(ctx)
	if err == nil && s.passage != nil {
		err = s.passage.Keep(s.logs.Dir())
	}
	if err == nil {
		err = s.save()
	}
	if err != nil {
		return err
	}
	s.startTimers()
	s.work.Go(s.watch)
	return nil
}

// openLogs opens the folder of the logs of the sandbox's runs, and lists them.
func (s *Sandbox) openLogs() (*eventlog.Folder, []eventlog.Entry, error) {
	dir, err := s.engine.state.folder()
	if err != nil {
		return nil, nil, err
	}
	return eventlog.OpenFolder(filepath.Join(dir, string(s.id)), s.owner, eventlog.Retention{}, s.engine.living.logs)
}

// spawn runs a goroutine that the end of the sandbox waits for, unless the sandbox has ended.
func (s *Sandbox) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return false
	}
	s.work.Go(f)
	return true
}

// wait waits until the sandbox is ready. The error says why it could not be made, or cannot be taken over now.
func (s *Sandbox) wait(ctx context.Context) error {
	if pending := s.pendingReason(); pending != nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "sandbox " + s.label(),
			Msg: "it could not be taken over from an earlier server yet", Err: pending,
			Fix: "try again"}
	}
	select {
	case <-s.made:
		return s.failed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// State returns the state of the sandbox now.
func (s *Sandbox) State() sandbox.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.record.Ended.IsZero():
		return sandbox.StateEnded
	case s.life.Err() != nil:
		return sandbox.StateEnding
	case s.isMade():
		return sandbox.StateReady
	}
	return sandbox.StateCreating
}

func (s *Sandbox) isMade() bool {
	select {
	case <-s.made:
		return s.failed == nil
	default:
		return false
	}
}

func (s *Sandbox) hasMetadata(metadata map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, v := range metadata {
		if has, ok := s.record.Spec.Metadata[k]; !ok || has != v {
			return false
		}
	}
	return true
}

// Ended returns why the sandbox takes no more work, or nil.
func (s *Sandbox) Ended() error {
	cause := context.Cause(s.life)
	var ended *endedError
	switch {
	case cause == nil:
		return nil
	case errors.As(cause, &ended):
		return s.endedBy(ended.reason)
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "sandbox " + s.label(), Err: cause, Fix: "try again"}
}

// endedBy is the error of calls after the end.
func (s *Sandbox) endedBy(reason string) error {
	return &sandbox.Error{Kind: sandbox.NotFound, Op: "sandbox " + s.label(), Msg: "it has ended: " + reason,
		Fixes: []sandbox.Hint{sandbox.FixCreate}}
}

// Done is closed when the sandbox takes no more work. Ended then returns why.
func (s *Sandbox) Done() <-chan struct{} { return s.life.Done() }

// label names the sandbox in messages.
func (s *Sandbox) label() string {
	if s.name != "" {
		return s.name
	}
	return string(s.id)
}

// Close ends the sandbox: its runs are canceled, and all its files are lost. It returns once nothing of it is left.
func (s *Sandbox) Close() error { return s.end(reasonRemoved) }

// end ends the sandbox for a reason, that of the first call, and waits until nothing of it is left.
func (s *Sandbox) end(reason string) error {
	if s.pendingReason() != nil {
		s.abandon()
	}
	<-s.made
	if s.failed != nil {
		if errors.Is(context.Cause(s.life), errDetached) { // the server stopped before it was taken over
			return s.Ended()
		}
		return nil
	}
	if s.life.Err() == nil {
		s.recordEnd(reason)
	}
	s.endLife(&endedError{reason})
	var mine *endedError
	if !errors.As(context.Cause(s.life), &mine) {
		return s.Ended() // the server left it
	}
	return s.remove()
}

func (s *Sandbox) removeOnce() error {
	s.recordEnd(context.Cause(s.life).Error())
	s.stopTimers()
	s.work.Wait()
	s.closeInTurn()
	s.mu.Lock()
	s.record.Ended, s.record.Reason = time.Now(), context.Cause(s.life).Error()
	record := s.record
	s.mu.Unlock()
	s.engine.living.leave(s, record)
	o := s.observation(SandboxEnded)
	o.Reason = record.Reason
	s.engine.observe(o)
	return errors.Join(s.removeLogs(), s.removePackages(), s.saveEnd())
}

// endAside ends the sandbox from one of its own goroutines, which end waits for. A closing engine ends it anyway.
func (s *Sandbox) endAside(reason string) {
	s.engine.goAside(func() {
		if err := s.end(reason); err != nil {
			s.engine.log.Warn("could not remove all of a sandbox", "sandbox", s.id, "err", err)
		}
	})
}

// goAside starts a goroutine that Close waits for, unless the engine is closing.
func (e *Engine) goAside(do func()) {
	t := e.living
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		e.endings.Go(do)
	}
}

// detach leaves the sandbox to the next server. Its processes continue. One that is ending already is ended.
func (s *Sandbox) detach() error {
	s.endLife(errDetached)
	if !errors.Is(context.Cause(s.life), errDetached) {
		return s.remove()
	}
	s.stopTimers()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.runs.byID {
		if err := x.log.Close(); err != nil {
			s.engine.log.Warn("could not write the log of a run", "sandbox", s.id, "run", x.id, "err", err)
		}
	}
	s.detachBox()
	return nil
}

// Info describes a sandbox.
type Info struct {
	sandbox.Record
	State sandbox.State
	Used  time.Time // when the last run ended, or the last call came
	// when it ends unless it is used; zero is never, and while something runs or a port is in use
	IdleEnds  time.Time
	Running   int            // runs
	Contexts  []ContextInfo  // in place of the record's
	Effective sandbox.Policy // what is enforced
}

// Info returns the sandbox's description now.
func (s *Sandbox) Info() Info {
	effective, state := s.effective(), s.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	i := Info{Record: s.record, State: state, Used: s.timers.used, Running: s.runs.running, Effective: effective}
	if !s.inUse() {
		i.IdleEnds = s.timers.idleEnds
	}
	i.Spec.Metadata = maps.Clone(i.Spec.Metadata)
	for _, c := range s.contexts {
		i.Contexts = append(i.Contexts, c.Info())
	}
	return i
}

// ID returns the sandbox's id.
func (s *Sandbox) ID() sandbox.ID { return s.id }

// Owner returns the owner of the sandbox.
func (s *Sandbox) Owner() string { return s.owner }

// Name returns the sandbox's name, or "".
func (s *Sandbox) Name() string { return s.name }

// Patch is what can be changed of a living sandbox. A nil or zero field stays.
type Patch struct {
	Metadata map[string]string // all of them
	Ends     Ends              // an end in the past ends it at once
	Extend   bool              // an end before the present one is no change
	Network  *sandbox.NetworkPolicy
	// timeout and output of later runs; memory and CPUs, on backends that can change them
	Limits sandbox.Limits
}

// Update changes a sandbox, or nothing of it if it fails.
func (s *Sandbox) Update(p Patch) (err error) {
	done, err := s.use() // or it might end as idle while the change is saved
	if err != nil {
		return err
	}
	defer done()
	if err := plan.CheckMetadata(p.Metadata); err != nil {
		return err
	}
	s.locks.updating.Lock()
	defer s.locks.updating.Unlock()
	life, network := s.spec().Lifetime, s.spec().Network
	before := life.EndsAt
	if err := p.Ends.set(&life); err != nil {
		return err
	}
	if p.Extend && life.EndsAt.Before(before) {
		life.EndsAt = before
	}
	if p.Network != nil {
		if network, err = s.newNetwork(*p.Network); err != nil {
			return err
		}
	}
	undo, err := s.resize(p.Limits)
	if err != nil {
		return err
	}
	if err := s.amend(func(r *sandbox.Record) {
		r.Spec.Lifetime, r.Spec.Network = life, network
		if p.Metadata != nil {
			r.Spec.Metadata = maps.Clone(p.Metadata)
		}
		setLimits(r, p.Limits)
	}); err != nil {
		return errors.Join(err, undo())
	}
	if p.Network != nil {
		var compared time.Duration
		compared, err = s.passage.SetPolicy(network)
		s.locks.compared.Add(int64(compared))
	}
	s.startTimers()
	s.observeSpec(SandboxUpdated)
	return err
}

// Stats is what a sandbox uses, as the host counts it.
func (s *Sandbox) Stats(ctx context.Context) (sandbox.Usage, error) {
	if err := s.Ended(); err != nil {
		return sandbox.Usage{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	u, err := s.usage(ctx, false)
	u.Wall = time.Since(s.created)
	return u, err
}
