package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Create requests a living sandbox: one that outlives its runs.
type Create struct {
	Owner   string       // over HTTP, the name of the API key; "" is no one's
	Name    string       // unique among the owner's; "" is none
	Backend string       // as in Run
	Spec    sandbox.Spec // as in Run; the engine sets ID and Lifetime
	Ends    Ends
	// by language; they are installed when Create returns
	Packages map[string]sandbox.Packages
	// Prepare, if not nil, completes the sandbox before Create returns it, also one that exists. It does not end with
	// the call: others may wait for the same sandbox.
	Prepare func(context.Context, *Sandbox) error
}

// Limits of living sandboxes.
const (
	DefaultSandboxes = 512 // that live at once

	// DefaultRuns is for LivingConfig.Runs. Slots do not limit runs without a time limit, and each takes some 40 KiB.
	DefaultRuns = 4096

	// DefaultReports is for LivingConfig.Reports, in bytes.
	DefaultReports = 256 << 20
	freeReports    = 64 << 10 // bytes of each run that need no room

	// ended sandboxes that are remembered, to say why one is gone; the oldest of the owner with the most go first
	maxEnded  = 1000
	keepEnded = 24 * time.Hour // and for how long
	maxPage   = 1000           // sandboxes in one listing
)

// LivingConfig configures living sandboxes. The zero value works.
type LivingConfig struct {
	Most      int    // at once; 0 is DefaultSandboxes
	OwnerMost int    // of one owner; 0 is all
	StateDir  string // keeps the logs of runs; "" is a temporary folder
	Store     Store  // keeps their records; with it and StateDir, they outlive the engine
	// LogBytes bounds the logs of all ended runs: the oldest of the owner with the most bytes go first. Those of other
	// runs may have as much, half of it of one owner; their further output is not kept. 0 is eventlog.DefaultQuota.
	LogBytes int64
	Ports    int // open connections to their ports, half of them of one owner; 0 is DefaultPorts
	Runs     int // that have not ended, half of them of one owner; 0 is DefaultRuns
	// Reports bounds the bytes that are held of unfinished answers of interpreters, and of unfinished reports of code
	// without a time limit, half of them of one owner. Past it, the interpreter ends. 0 is DefaultReports.
	Reports int64
	// Processes is how many processes and threads all sandboxes can have together; 0 is unknown. While few are left, an
	// owner with too many loses sandboxes, also of one-shot runs, if owners have shares.
	Processes int64
	// ResumeWait is how long Resume waits for guests that do not answer, all together. 0 is DefaultResumeWait.
	ResumeWait time.Duration
}

// Store keeps what must outlive the process. Its methods are called off the hot path.
type Store interface {
	Save(sandbox.Record) (bytes int, err error)
	Remove(sandbox.ID) error
}

// table holds the living sandboxes of an engine.
type table struct {
	mu     sync.Mutex // guards all below
	byID   map[sandbox.ID]*Sandbox
	byName map[ownedName]*Sandbox
	owned  map[string]int // sandboxes of each owner
	ended  []sandbox.Record
	closed bool

	weighing        sync.Once // startWeighing
	most, ownerMost int       // sandboxes of all owners and of each; 0 of one is no bound

	making  *admission // of sandboxes that are made
	closing *admission // of sandboxes that are closed; apart, as start commands of images make a turn of making long
	// turns to add packages to a sandbox or to remove them: the kernel's work for their files takes one CPU of an owner
	linking *room.Room

	ports *room.Room // of open connections to ports of sandboxes
	runs  *room.Room // of runs that have not ended
	// of what is held of answers, and of reports of code without a slot: unfinished, or waiting for output
	reports *room.Room
	logs    *eventlog.Quota // of all sandboxes

	callers  callers // runs in fresh sandboxes
	crowding crowding
}

type ownedName struct{ owner, name string }

func newTable(c *LivingConfig) *table {
	return &table{byID: map[sandbox.ID]*Sandbox{}, byName: map[ownedName]*Sandbox{}, owned: map[string]int{},
		ports: room.Halves(int64(c.Ports)), runs: room.Halves(int64(c.Runs)), reports: room.Halves(c.Reports),
		logs: eventlog.NewQuota(c.LogBytes), linking: room.New(math.MaxInt64, 1)}
}

var validSandboxName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)
})

// checkName checks the name of a sandbox or a context. It appears in paths of URLs, and must not look like an ID.
func checkName(name string) error {
	if _, err := sandbox.ParseID(name); err == nil || !validSandboxName().MatchString(name) {
		return sandbox.Invalidf("name",
			"%.80q is not 1 to 63 of a-z, 0-9 and ._- with a letter or digit at both ends, or looks like an id", name)
	}
	return nil
}

// Create makes a living sandbox. If the owner has one of this name, Create returns that, and false.
//
// Errors are Invalid, Quota, Busy, Unavailable while draining, Unsupported by the backend.
func (e *Engine) Create(ctx context.Context, c Create) (s *Sandbox, made bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, made, err = nil, false, e.panicked("create", p)
		}
	}()
	record, backend, err := e.planLiving(ctx, c)
	if err != nil {
		return nil, false, err
	}
	for {
		s, mine, err := e.reserve(record, backend)
		if err != nil {
			return nil, false, err
		}
		if mine {
			s.make(ctx)
		}
		if err := s.wait(ctx); err != nil {
			return nil, false, err
		}
		if mine {
			err := s.addAll(ctx, c.Packages)
			if err == nil {
				err = s.prepare(ctx, &c)
			}
			if err != nil {
				return nil, false, errors.Join(err, s.giveUp())
			}
			return s, true, nil
		}
		if s.Ended() == nil {
			if err := s.prepare(ctx, &c); err != nil {
				return nil, false, err
			}
			return s, false, nil
		}
		if sandbox.KindOf(s.Ended()) != sandbox.NotFound { // the server is stopping
			return nil, false, s.Ended()
		}
		_ = s.Close() // waits for its end, which frees the name
	}
}

// prepare completes a sandbox that Create returns.
func (s *Sandbox) prepare(ctx context.Context, c *Create) error {
	if c.Prepare == nil {
		return nil
	}
	return c.Prepare(context.WithoutCancel(ctx), s)
}

// giveUp ends a sandbox that the call which made it cannot return, unless another call has found it by its name: its
// client may have the answer already.
func (s *Sandbox) giveUp() error {
	t := s.engine.living
	t.mu.Lock()
	shared := s.shared
	if !shared { // who finds it from now on waits for its end
		s.endLife(&endedError{"it could not be completed"})
	}
	t.mu.Unlock()
	if shared {
		return nil
	}
	return s.Close()
}

// planLiving completes the record of a sandbox to make, and chooses its backend.
func (e *Engine) planLiving(ctx context.Context, c Create) (record sandbox.Record, backend sandbox.Backend, err error) {
	if c.Name != "" {
		if err := checkName(c.Name); err != nil {
			return record, nil, err
		}
	}
	if err := plan.CheckMetadata(c.Spec.Metadata); err != nil {
		return record, nil, err
	}
	c.Spec.Lifetime = sandbox.Lifetime{Living: true, Idle: DefaultIdle, EndsAt: time.Now().Add(DefaultLifetime),
		Lease: c.Spec.Lifetime.Lease}
	if err := c.Ends.set(&c.Spec.Lifetime); err != nil {
		return record, nil, err
	}
	own := e.rulesOf(c.Owner)
	spec, err := own.Box(c.Spec)
	if err != nil {
		return record, nil, err
	}
	if backend, err = e.backend(ctx, c.Backend, spec.AllowUnenforced); err != nil {
		return record, nil, err
	}
	image, err := e.imageOf(ctx, backend, spec, e.FetchFor(c.Owner))
	if err != nil {
		return record, nil, err
	}
	if rules := own.OnImage(image); image.Digest != "" {
		if spec, err = rules.Box(rules.Rooted(c.Spec, image)); err != nil {
			return record, nil, err
		}
	}
	spec.ID = sandbox.NewID()
	if err := e.placePackages(backend, &spec); err != nil {
		return record, nil, err
	}
	return sandbox.Record{ID: spec.ID, Name: c.Name, Owner: c.Owner, Backend: backend.Name(), Spec: spec,
		Created: time.Now()}, backend, nil
}

// reserve enters a sandbox that is yet to be made, from a warm box if possible, or finds the one of its name.
func (e *Engine) reserve(record sandbox.Record, backend sandbox.Backend) (s *Sandbox, mine bool, err error) {
	t := e.living
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || e.admission.isDraining() {
		return nil, false, &sandbox.Error{Kind: sandbox.Unavailable, Op: "create", Msg: "this server is shutting down"}
	}
	key := ownedName{record.Owner, record.Name}
	if found := t.byName[key]; record.Name != "" && found != nil {
		found.shared = true
		return found, false, nil
	}
	if most := t.most; len(t.byID) >= most {
		return nil, false, quota("this server has", most)
	}
	if err := e.mayOwnMore(record.Owner); err != nil {
		return nil, false, err
	}
	if s = e.pool.takeLiving(backend, record.Spec, record.Owner); s != nil {
		record.ID, record.Spec.ID, record.Spec.Mounts = s.id, s.id, s.record.Spec.Mounts // the folders of this box
		s.become(record)
	} else {
		s = newSandbox(e, backend, record)
	}
	t.enter(s)
	return s, true, nil
}

func quota(who string, most int) error {
	noun := "sandboxes"
	if most == 1 {
		noun = "sandbox"
	}
	return &sandbox.Error{Kind: sandbox.Quota, Op: "create",
		Msg: fmt.Sprintf("%s %d living %s, the most that are allowed", who, most, noun),
		Fix: "remove one that is no longer needed"}
}

// enter adds a sandbox. The caller holds mu.
func (t *table) enter(s *Sandbox) {
	t.byID[s.id] = s
	t.owned[s.owner]++
	if s.name != "" {
		t.byName[s.ownedName] = s
	}
}

// leave removes a sandbox and remembers why it ended.
func (t *table) leave(s *Sandbox, ended sandbox.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.id] != s {
		return
	}
	delete(t.byID, s.id)
	if t.owned[s.owner]--; t.owned[s.owner] == 0 {
		delete(t.owned, s.owner)
	}
	if t.byName[s.ownedName] == s {
		delete(t.byName, s.ownedName)
	}
	if ended.Reason != "" {
		t.remember(ended)
	}
}

// tombstone is the record of an ended sandbox: it keeps the reason, and drops the fields that can be large.
func tombstone(r sandbox.Record) sandbox.Record {
	r.Spec, r.Contexts, r.Packages = sandbox.Spec{}, nil, nil
	return r
}

// remember keeps the record of an ended sandbox for a while. The caller holds mu.
func (t *table) remember(ended sandbox.Record) {
	t.ended = append(t.ended, tombstone(ended))
	old := time.Now().Add(-keepEnded)
	for len(t.ended) > 0 && t.ended[0].Ended.Before(old) {
		t.ended = t.ended[1:]
	}
	for len(t.ended) > maxEnded {
		i := room.Surplus(len(t.ended), func(i int) string { return t.ended[i].Owner })
		t.ended = slices.Delete(t.ended, i, i+1)
	}
}

// Sandbox finds a living sandbox of an owner by its id or name. NotFound says why it ended, if that is known.
func (e *Engine) Sandbox(ctx context.Context, owner, name string) (*Sandbox, error) {
	s, err := e.find(owner, name)
	if err != nil {
		return nil, err
	}
	return s, s.wait(ctx)
}

// Remove ends a living sandbox of an owner, by its id or name, also one that could not be taken over from an earlier
// server yet. NotFound reports why it ended, if that is known.
func (e *Engine) Remove(owner, name string) error {
	s, err := e.find(owner, name)
	var missing *sandbox.Error
	if errors.As(err, &missing) {
		missing.Fixes = []sandbox.Hint{sandbox.FixListLiving}
		return missing
	}
	return s.Close()
}

// find finds a living sandbox, which may not be ready.
func (e *Engine) find(owner, name string) (*Sandbox, error) {
	t := e.living
	t.mu.Lock()
	s := t.byName[ownedName{owner, name}]
	if s == nil {
		if s = t.byID[sandbox.ID(name)]; s != nil && s.owner != owner {
			s = nil
		}
	}
	var ended *sandbox.Record
	for i := len(t.ended) - 1; i >= 0 && s == nil && ended == nil; i-- {
		if r := &t.ended[i]; r.Owner == owner && (r.Name == name && name != "" || string(r.ID) == name) {
			copied := *r
			ended = &copied
		}
	}
	t.mu.Unlock()
	switch {
	case ended != nil:
		return nil, &sandbox.Error{Kind: sandbox.NotFound, Op: "sandbox " + printableName(name), Msg: "it has ended: " +
			ended.Reason, Fixes: []sandbox.Hint{sandbox.FixCreate}}
	case s == nil:
		return nil, &sandbox.Error{Kind: sandbox.NotFound, Op: "sandbox " + printableName(name),
			Msg:   "no living sandbox has this name or id",
			Fixes: []sandbox.Hint{sandbox.FixCreate}}
	}
	return s, nil
}

// SandboxOfAny finds the living sandbox of an id for any owner: for requests that no API key authorizes. A
// nil sandbox means that none has the id. It takes the same time for any number of sandboxes.
func (e *Engine) SandboxOfAny(ctx context.Context, id sandbox.ID) (*Sandbox, error) {
	s := e.Living(id)
	if s == nil {
		return nil, nil
	}
	return s, s.wait(ctx)
}

// Living returns the living sandbox of an id, for any owner, or nil. It may not be ready.
func (e *Engine) Living(id sandbox.ID) *Sandbox {
	e.living.mu.Lock()
	defer e.living.mu.Unlock()
	return e.living.byID[id]
}

// Each calls f with the owner and the id of every living sandbox, in any order.
func (e *Engine) Each(f func(owner string, id sandbox.ID)) {
	e.living.mu.Lock()
	all := slices.Collect(maps.Values(e.living.byID))
	e.living.mu.Unlock()
	for _, s := range all { // f may take long: without the lock
		f(s.owner, s.id)
	}
}

// printableName returns a name from a request if it is safe in a message.
func printableName(name string) string {
	if plain := diagnose.PlainName(name); plain != "" {
		return plain
	}
	return "of that name"
}

// Sandboxes lists the living sandboxes of an owner that have all of the metadata, the oldest first, at most limit after
// the one of an id. more reports whether there are others. It returns ids, for Living: a client may read a list slowly,
// and whatever holds an ended sandbox keeps its memory.
func (e *Engine) Sandboxes(owner string, metadata map[string]string, after sandbox.ID, limit int) (
	list []sandbox.ID, more bool, err error) {
	return e.list(func(s *Sandbox) bool { return s.owner == owner }, metadata, after, limit)
}

// SandboxesOfAny is Sandboxes for all owners.
func (e *Engine) SandboxesOfAny(metadata map[string]string, after sandbox.ID, limit int) (
	list []sandbox.ID, more bool, err error) {
	return e.list(func(*Sandbox) bool { return true }, metadata, after, limit)
}

func (e *Engine) list(fits func(*Sandbox) bool, metadata map[string]string, after sandbox.ID, limit int) (
	list []sandbox.ID, more bool, err error) {
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	all := e.living.all(fits)
	if after != "" {
		i := slices.IndexFunc(all, func(s *Sandbox) bool { return s.id == after })
		if i < 0 {
			return nil, false, sandbox.Invalidf("after", "no living sandbox has this id; list from the start again")
		}
		all = all[i+1:]
	}
	for _, s := range all {
		if state := s.State(); state == sandbox.StateCreating && s.pendingReason() == nil || !s.hasMetadata(metadata) {
			continue
		}
		if len(list) == limit {
			return list, true, nil
		}
		list = append(list, s.id)
	}
	return list, false, nil
}

// all returns the sandboxes that fit, the oldest first.
func (t *table) all(fits func(*Sandbox) bool) []*Sandbox {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*Sandbox
	for _, s := range t.byID {
		if fits(s) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *Sandbox) int {
		if c := a.created.Compare(b.created); c != 0 {
			return c
		}
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return list
}

// keeps reports whether living sandboxes outlive this process.
func (e *Engine) keeps() bool { return e.config.Living.Store != nil && e.config.Living.StateDir != "" }

// closeLiving detaches the sandboxes that the next server can take over, and ends all others.
func (e *Engine) closeLiving() error {
	t := e.living
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, s := range t.all(func(*Sandbox) bool { return true }) {
		all.Go(func() {
			var err error
			switch <-s.made; { // soon: the engine has stopped what makes it
			case s.failed != nil:
			case e.keeps():
				err = s.detach()
			default:
				err = s.end(reasonClosed)
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(append(errs, e.state.close())...)
}
