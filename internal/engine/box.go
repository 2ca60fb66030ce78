package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// boxed is the box of a sandbox with its connection, network and packages.
type boxed struct {
	box     sandbox.Box
	guest   connection
	passage sandbox.Passage // the way out of its network; nil if it has none
	layers  supplied
	wanted  *sandbox.Fork // what its one run can run in; nil is only a new interpreter
	parked  *sandbox.Fork // what waits in the box, else nil
	forked  bool          // it is a fork of a zygote; else the guest started it

	weight     weight
	guestKills atomic.Int64 // processes that the guest has killed at the memory limit, by its last answer

	unclosed func() error // closes the box if closeBox could not; else nil
}

// create takes a warm sandbox for a plan, or builds one.
func (e *Engine) create(ctx context.Context, p *oneShot) (*Sandbox, error) {
	wanted := e.forkOf(&p.job)
	if s := e.pool.take(p.backend, p.Spec, p.owner, p.supplied, wanted); s != nil {
		s.wanted = wanted
		spec := p.Spec // a warm box lacks the owner, and this run's environment, metadata and some limits
		spec.ID = s.id
		s.become(sandbox.Record{ID: spec.ID, Owner: p.owner, Spec: spec})
		return s, nil
	}
	spec := p.Spec
	spec.ID = sandbox.NewID()
	s := newSandbox(e, p.backend, sandbox.Record{ID: spec.ID, Owner: p.owner, Spec: spec})
	if err := s.build(ctx); err != nil {
		return nil, err
	}
	s.layers, s.wanted = p.supplied.share(), wanted
	return s, nil
}

// build makes the box of a sandbox, from its complete spec. After an error there is no box.
func (s *Sandbox) build(ctx context.Context) error {
	s.engine.boxes.Add(1) // from before the box exists until after it is gone
	made := false
	defer func() {
		if !made {
			s.engine.boxes.Add(-1)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	spec, gone, err := trusting(s.record.Spec)
	if err != nil {
		return err
	}
	release, err := s.mountVolumes(ctx, &spec)
	if err != nil {
		gone()
		return err
	}
	if !s.leased() {
		spec.Lifetime = sandbox.Lifetime{} // its guest ends with this process; promote makes the rest living
	}
	box, err := s.backend.Create(ctx, spec)
	release()
	gone()
	if err != nil {
		return err
	}
	s.box, made = box, true
	err = s.openNetwork(ctx)
	if err == nil {
		err = s.makeUserFolders(ctx)
	}
	if err == nil {
		err = s.startImage(ctx)
	}
	if err != nil {
		s.closeBox()
		s.box = nil
	}
	return err
}

// promote makes a one-shot box the box of a living sandbox: first for the next server, which finds its record, then for
// its guest, which ends with this server until then. If there is no next server, the guest stays as it is.
func (s *Sandbox) promote(ctx context.Context) error {
	lifetime := s.spec().Lifetime
	c, err := s.connect(ctx)
	if err == nil && s.parked != nil {
		err = c.Park(ctx, guest.Park{}) // a living sandbox needs none
		s.parked = nil
	}
	if box, can := s.box.(sandbox.Promoter); can && err == nil {
		err = box.Promote(ctx, lifetime)
	}
	if err == nil && s.leased() {
		err = c.Lease(ctx, lifetime.GuestLease())
	}
	if err != nil {
		return fmt.Errorf("make the sandbox living: %w", err)
	}
	return nil
}

// leased reports whether the guest of a living sandbox waits for another server. Otherwise it ends with this process.
func (s *Sandbox) leased() bool {
	l, is := s.backend.(sandbox.Leaser)
	return s.engine.keeps() || is && l.Leases()
}

// closeBox closes the box and what belongs to it. A box that fails to close, for example while a container engine
// restarts, is closed later: by removeLogs, if the sandbox has logs.
func (s *Sandbox) closeBox() {
	defer s.engine.boxes.Add(-1)
	defer s.engine.living.crowding.remove(s)
	defer func() {
		if p := recover(); p != nil {
			_ = s.engine.panicked("close the box", p)
		}
	}()
	s.closeNetwork()
	s.guest.close()
	if err := s.box.Close(); err != nil {
		s.engine.log.Error("a box did not close", "sandbox", s.id, "backend", s.backend.Name(), "err", err)
		if s.unclosed = s.box.Close; s.logs == nil {
			s.engine.closeLater(s.unclosed, func() error { return nil })
		}
	}
	s.layers.release()
}

// closeInTurn closes the box when it is its owner's turn, for the reason of makeInTurn: a box may have many files and
// much memory. It does not wait once the engine stops.
func (s *Sandbox) closeInTurn() {
	closing, owner := s.engine.living.closing, s.owner
	if closing.acquire(s.engine.stop, owner, func() {}) == nil {
		began := time.Now()
		defer func() { closing.release(owner, time.Since(began)) }()
	}
	s.closeBox()
}

// detachBox leaves the box to the next server.
func (s *Sandbox) detachBox() {
	defer s.engine.boxes.Add(-1)
	s.closeNetwork()
	s.guest.close()
}

// closers close boxes in the background. While few are closing, a slot is free as soon as its answer is ready. Past the
// limit, a slot stays taken until its box is gone, so that teardown may lag but never pile up.
type closers struct {
	tokens  chan struct{} // one for each close without a slot
	running sync.WaitGroup
	closing atomic.Int64
}

// retire closes the box of s in the background and calls release when its slot is free. The caller's Run must still be
// counted in Engine.runs, so that waiting for the runs and then for the closers misses none.
func (c *closers) retire(s *Sandbox, release func()) {
	c.closing.Add(1)
	select {
	case c.tokens <- struct{}{}:
		release()
		release = func() { <-c.tokens }
	default:
	}
	c.running.Go(func() {
		defer c.closing.Add(-1)
		defer release()
		s.closeBox()
	})
}

func (c *closers) wait() { c.running.Wait() }

func (c *closers) count() int { return int(c.closing.Load()) }
