package engine

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// pool keeps warm boxes, built and dialled ahead. Each serves one sandbox and is never reused. Its key is the
// fingerprint of everything it was built from, so a warm box equals a fresh one.
//
// It keeps boxes for specs used in the last shelfLife. Shelves are few, so owners share them; their boxes serve all
// owners.
type pool struct {
	engine *Engine
	size   int // warm boxes of one fingerprint; 0 keeps none
	fills  goroutines

	mu      sync.Mutex // guards all below
	shelves map[string]*shelf
	allowed map[string]allowance // by owner
	closed  bool
}

// shelf holds the warm boxes of one fingerprint.
type shelf struct {
	backend  sandbox.Backend
	spec     sandbox.Spec
	owner    string        // for whom its boxes count; shelf may change it, so the pool's mu guards it
	held     supplied      // its layers
	fork     *sandbox.Fork // the last to be requested, parked in new boxes; nil parks none
	unparked bool          // nothing waits in its boxes: the image's interpreter has used too much
	folders  bool          // each box has its folders for packages
	used     time.Time     // last
	ready    []*Sandbox
	filling  bool
	failed   time.Time // time of the last failure to make a box
	kept     bool      // for KeepWarm, which requests it again after a failure
	warned   bool      // its last failure is in the log
	idle     *time.Timer
}

// Limits of the pool.
const (
	maxWarm    = 256              // boxes of one spec
	maxShelves = 8                // specs kept warm
	shelfLife  = 60 * time.Second // without use, before the shelf is emptied
	// without use, before an owner with as many shelves may replace it; sooner, boxes would cost more than they save
	shelfRest   = 5 * time.Second
	fillBackoff = 5 * time.Second // after a failure to make a box
)

// WarmBoxes returns how many boxes an engine keeps ready at most, with so many for each spec.
func WarmBoxes(each int) int { return each * maxShelves }

// fingerprint is the key of everything a box is built from, digests of layers included. It is "" for specs that are
// never kept warm: long-lived sandboxes, and directories of the host but a sandbox's own, which may be replaced before
// the box is used. The start command of an image has the environment of the spec.
func fingerprint(backend string, spec sandbox.Spec) string {
	if spec.Lifetime.Living || spec.Workspace != "" || len(spec.Mounts) > 0 || len(spec.NamedVolumes()) > 0 ||
		spec.Root.Dir != "" ||
		len(spec.Devices) > 0 || spec.Network.Authority != nil {
		return ""
	}
	spec.ID, spec.Metadata = "", nil
	if spec.Root.Start == nil {
		spec.Env = nil // given with each start
	}
	spec.Limits.Timeout, spec.Limits.OutputBytes = 0, 0 // enforced by guest and engine, for each run
	spec.Named = slices.DeleteFunc(slices.Clone(spec.Named),
		func(l sandbox.LimitName) bool { return l == sandbox.LimitTimeout || l == sandbox.LimitOutput })
	if len(spec.Named) == 0 {
		spec.Named = nil
	}
	key, err := json.Marshal(struct {
		Backend string
		Spec    sandbox.Spec
	}{backend, spec})
	if err != nil {
		return ""
	}
	return string(key)
}

// take returns a warm box for the spec, or nil, and starts refilling its shelf. held are the layers of the spec. It
// prefers a box in which a fork for f is parked, or none if f is nil. The boxes to come are parked for f.
func (p *pool) take(b sandbox.Backend, spec sandbox.Spec, owner string, held supplied, f *sandbox.Fork) *Sandbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shelf(b, spec, owner, held)
	if s == nil {
		return nil
	}
	s.fork = f
	var found *Sandbox
	for len(s.ready) > 0 && found == nil {
		n := max(slices.IndexFunc(s.ready, func(l *Sandbox) bool { return l.parkedFor(f) }), 0)
		found = s.ready[n]
		s.ready = slices.Delete(s.ready, n, n+1)
		if !isOpen(found.guest.current()) { // its guest has ended
			p.discard(found)
			found = nil
		}
	}
	if found != nil {
		p.engine.living.crowding.remove(found) // no longer the shelf's
	}
	p.fill(s)
	return found
}

// warm fills the shelf of a spec as for a run of no owner, and keeps it. It no longer keeps shelves for an earlier
// version of the image.
func (p *pool) warm(b sandbox.Backend, spec sandbox.Spec) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shelves {
		s.kept = s.kept && (s.spec.Root.Image != spec.Root.Image || reflect.DeepEqual(s.spec.Root, spec.Root))
	}
	if s := p.shelf(b, spec, "", supplied{}); s != nil {
		s.kept = true
		p.fill(s)
	}
}

// shelf returns the shelf of a spec for one more use, or nil: it has none, and there is no room. The caller holds mu.
func (p *pool) shelf(b sandbox.Backend, spec sandbox.Spec, owner string, held supplied) *shelf {
	if p.size == 0 {
		return nil
	}
	mounts := p.engine.otherMounts(spec)
	folders := len(mounts) < len(spec.Mounts)
	spec.Mounts = mounts
	key := fingerprint(b.Name(), spec)
	if key == "" {
		return nil
	}
	if folders {
		key = "with folders " + key
	}
	s := p.shelves[key]
	if s == nil {
		if p.closed || !p.room(owner) {
			return nil
		}
		s = &shelf{backend: b, spec: spec, owner: owner, held: held.share(), folders: folders}
		s.spec.Metadata = nil // it belongs to one request
		if s.spec.Root.Start == nil {
			s.spec.Env = nil
		}
		s.idle = time.AfterFunc(shelfLife, func() { p.drop(key) })
		p.shelves[key] = s
	}
	if s.owner != owner && s.starts() && p.spend(s.owner, 0) {
		s.owner = owner // the former has used its CPU time, perhaps for start commands of other images
	}
	s.idle.Reset(shelfLife)
	s.used = time.Now()
	return s
}

// takeLiving returns a warm box that can be promoted to a living sandbox of the spec, or nil.
func (p *pool) takeLiving(b sandbox.Backend, spec sandbox.Spec, owner string) *Sandbox {
	spec.Lifetime = sandbox.Lifetime{}
	l := p.take(b, spec, owner, supplied{}, nil)
	if l == nil {
		return nil
	}
	if _, can := l.box.(sandbox.Promoter); !can {
		p.discard(l)
		return nil
	}
	return l
}

// room makes room for one more shelf of an owner, and reports whether there is. If all are taken, it empties the least
// recently used shelf of the owner with the most. So owners with few lose none to owners with many. The shelves of
// KeepWarm stay: they are at most half of all. The caller holds mu.
func (p *pool) room(owner string) bool {
	if len(p.shelves) < maxShelves {
		return true
	}
	has := map[string]int{}
	for _, s := range p.shelves {
		if !s.kept {
			has[s.owner]++
		}
	}
	most := 0
	for _, n := range has {
		most = max(most, n)
	}
	oldest := ""
	for key, s := range p.shelves {
		theirs := has[owner] < most || s.owner == owner
		if has[s.owner] == most && theirs && !s.kept && (oldest == "" || s.used.Before(p.shelves[oldest].used)) {
			oldest = key
		}
	}
	if oldest == "" || most < has[owner]+2 && time.Since(p.shelves[oldest].used) < shelfRest {
		return false
	}
	p.clear(oldest)
	return true
}

// fill starts filling a shelf, unless it is being filled or a box just failed. The caller holds mu.
func (p *pool) fill(s *shelf) {
	if s.filling || p.closed || time.Since(s.failed) < fillBackoff {
		return
	}
	s.filling = true
	p.fills.Go(func() {
		for p.wants(s) {
			began := time.Now()
			l, err := p.make(s)
			if err != nil { // the box is gone, and its CPU time with it: count the time that has passed
				p.countStart(s, time.Since(began))
			}
			p.put(s, l, err)
		}
	})
}

// wants reports whether to make one more box, and otherwise ends the filling. While more than half of the slots are in
// use, the CPUs are too busy to make boxes ahead. The next run asks again.
func (p *pool) wants(s *shelf) bool {
	held, _, _ := p.engine.admission.load()
	p.mu.Lock()
	defer p.mu.Unlock()
	spare := 2*(held-1) < p.engine.admission.slots
	s.filling = spare && !p.closed && s.idle != nil && len(s.ready) < p.size && time.Since(s.failed) >= fillBackoff &&
		!(s.starts() && p.spend(s.owner, 0))
	return s.filling
}

func (p *pool) make(s *shelf) (*Sandbox, error) {
	ctx, cancel := context.WithTimeout(p.engine.stop, createTimeout)
	defer cancel()
	spec := s.spec
	spec.ID = sandbox.NewID()
	if s.folders {
		err := p.engine.placePackages(s.backend, &spec)
		if err == nil {
			err = p.engine.makePackages(spec)
		}
		if err != nil {
			return nil, errors.Join(err, p.engine.removePackages(spec.ID))
		}
	}
	p.mu.Lock()
	owner := s.owner
	p.mu.Unlock()
	// its network counts for the owner of the shelf until it is taken: code of an image may run in it
	l := newSandbox(p.engine, s.backend, sandbox.Record{ID: spec.ID, Owner: owner, Spec: spec})
	if err := l.build(ctx); err != nil {
		if s.folders {
			err = errors.Join(err, p.engine.removePackages(spec.ID))
		}
		return nil, err
	}
	if _, err := l.connect(ctx); err != nil {
		p.end(l)
		return nil, err
	}
	p.mu.Lock()
	f := s.fork
	if s.unparked {
		f = nil
	}
	p.mu.Unlock()
	if f == nil {
		return l, nil
	}
	if err := l.park(ctx, f, true); errors.Is(err, sandbox.ErrEntered) {
		p.end(l)
		return nil, err
	} else if errors.Is(err, errParkedUsage) {
		p.end(l)
		p.unpark(s, err)
		return p.make(s)
	} else if err != nil && !errors.Is(err, sandbox.ErrNoZygote) {
		p.engine.log.Debug("no interpreter waits in a warm box", "sandbox", l.id, "err", err)
	}
	return l, nil
}

// parkedFor reports whether a warm box waits for f, or for no fork if f is nil.
func (s *Sandbox) parkedFor(f *sandbox.Fork) bool {
	if s.parked == nil || f == nil {
		return s.parked == nil && f == nil
	}
	return s.parked.Like(f)
}

// end closes a box that was not taken.
func (p *pool) end(s *Sandbox) {
	s.closeBox()
	if p.engine.hasPackages(s.record.Spec) {
		_ = p.engine.removePackages(s.id) // the next start tries again
	}
}

// put shelves a box, or closes it if it comes too late.
func (p *pool) put(s *shelf, l *Sandbox, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		s.failed = time.Now()
		if p.engine.stop.Err() != nil {
			return // the engine closes
		}
		if kind := sandbox.KindOf(err); kind == sandbox.Invalid || kind == sandbox.Unsupported {
			if !s.kept {
				p.forget(s) // its runs get the error; clients must not fill shelves and the log
				return
			}
			if p.warned(s.spec.Root) {
				return
			}
			s.warned = true
		}
		p.engine.log.Warn("could not make a warm box", "backend", s.backend.Name(), "image", s.spec.Root.Image,
			"err", err)
	case p.closed || s.idle == nil:
		p.discard(l)
	default:
		l.layers = s.held.share()
		s.ready = append(s.ready, l)
		s.warned = false
		if s.spec.Root.Image != "" && !s.kept {
			p.engine.living.crowding.add(l)
		}
		switch {
		case l.isWatched():
			p.fills.Go(func() { p.watch(s, l) })
		case s.starts():
			p.fills.Go(func() { p.watchStart(s, l) })
		}
	}
}

// warned reports whether the log has the failure of a shelf with this root. The caller holds mu.
func (p *pool) warned(root sandbox.Root) bool {
	for _, s := range p.shelves {
		if s.warned && s.spec.Root.Image == root.Image && s.spec.Root.Digest == root.Digest {
			return true
		}
	}
	return false
}

// forget removes a shelf. The caller holds mu.
func (p *pool) forget(s *shelf) {
	for key, other := range p.shelves {
		if other == s {
			p.clear(key)
		}
	}
}

// discard closes a box in the background. The caller holds mu.
func (p *pool) discard(s *Sandbox) { p.fills.Go(func() { p.end(s) }) }

// expel ends a box that waits on a shelf, which is not filled again for a while. It returns false for any other box.
func (p *pool) expel(l *Sandbox) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shelves {
		if i := slices.Index(s.ready, l); i >= 0 {
			s.ready, s.failed = slices.Delete(s.ready, i, i+1), time.Now()
			p.discard(l)
			return true
		}
	}
	return false
}

// drop empties a shelf and forgets it.
func (p *pool) drop(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear(key)
}

// clear is drop for callers that hold mu.
func (p *pool) clear(key string) {
	s := p.shelves[key]
	if s == nil {
		return
	}
	s.idle.Stop()
	s.idle = nil // put closes a box that is still being made
	s.held.release()
	delete(p.shelves, key)
	for _, l := range s.ready {
		p.discard(l)
	}
	s.ready = nil
}

// close stops filling, empties the pool and waits until all its boxes are closed.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	keys := make([]string, 0, len(p.shelves))
	for key := range p.shelves {
		keys = append(keys, key)
	}
	p.mu.Unlock()
	for _, key := range keys {
		p.drop(key)
	}
	p.fills.Wait()
}

// count returns the number of warm boxes.
func (p *pool) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, s := range p.shelves {
		n += len(s.ready)
	}
	return n
}
