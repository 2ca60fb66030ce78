package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// live is one sandbox that the engine has created and not yet closed. It is in the engine's table as long as its box exists.
type live struct {
	engine  *Engine
	id      sandbox.ID
	backend string
	spec    sandbox.Spec
	box     sandbox.Box
	client  *client.Client // nil until the first execution
	created time.Time
	passage sandbox.Passage // the way out of its network; nil if it has none
	supplied
}

// create takes a warm box for a plan, or builds one.
func (e *Engine) create(ctx context.Context, p *oneShot) (*live, error) {
	if l := e.pool.take(p.backend, p.Spec, p.owner, p.supplied); l != nil {
		l.spec = p.Spec // a warm box lacks this sandbox's labels, environment and some limits
		l.spec.ID = l.id
		return l, nil
	}
	l, err := e.build(ctx, p.backend, p.Spec)
	if err == nil {
		l.supplied = p.supplied.share()
	}
	return l, err
}

// build makes a sandbox from a complete spec. Its id is in the table from before the box exists until after it is gone, so a listing
// never misses one.
func (e *Engine) build(ctx context.Context, b sandbox.Backend, spec sandbox.Spec) (*live, error) {
	spec.ID = sandbox.NewID()
	return e.buildAs(ctx, b, spec)
}

// buildAs is build for a spec that has its ID.
func (e *Engine) buildAs(ctx context.Context, b sandbox.Backend, spec sandbox.Spec) (*live, error) {
	l := &live{engine: e, id: spec.ID, backend: b.Name(), created: time.Now(), spec: spec}
	e.mu.Lock()
	e.lives[l.id] = l
	e.mu.Unlock()
	made := false
	defer func() {
		if !made {
			e.forget(l.id)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	spec, gone, err := trusting(spec)
	if err != nil {
		return nil, err
	}
	box, err := b.Create(ctx, spec)
	gone()
	if err != nil {
		return nil, err
	}
	l.box = box
	made = true
	if err := l.openNetwork(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// promote makes a warm box one that lives on: first for whoever finds its record, then for its guest, which ends with this server until then.
func (l *live) promote(ctx context.Context) error {
	c, err := l.connect(ctx)
	if err == nil {
		err = l.box.(sandbox.Promoter).Promote(ctx, l.spec.Lifetime)
	}
	if err == nil {
		err = c.Lease(ctx, l.spec.Lifetime.GuestLease())
	}
	if err != nil {
		return fmt.Errorf("create the sandbox of a warm one: %w", err)
	}
	return nil
}

func (e *Engine) forget(id sandbox.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.lives, id)
}

// close closes the sandbox and removes it from the table. If the box fails to close, the backend's Recover removes it.
func (l *live) close() {
	defer l.engine.forget(l.id)
	defer func() {
		if p := recover(); p != nil {
			_ = l.engine.panicked("close the box", p)
		}
	}()
	l.closeNetwork()
	if l.client != nil {
		_ = l.client.Close() // we end the connection, so its error is expected
	}
	if err := l.box.Close(); err != nil {
		l.engine.log.Error("a box did not close", "sandbox", l.id, "backend", l.backend, "err", err)
	}
	l.supplied.release()
}

// detach leaves a living box to the next server.
func (l *live) detach() {
	defer l.engine.forget(l.id)
	l.closeNetwork()
	_ = l.client.Close() // we end the connection, so its error is expected
}

// closers close boxes in the background. While few are closing, a slot is free as soon as its answer is ready. Past the limit, a slot
// stays taken until its box is gone, so that teardown may lag but never pile up.
type closers struct {
	tokens  chan struct{} // one for each close without a slot
	running sync.WaitGroup
	closing atomic.Int64
}

// retire closes l in the background and calls release when its slot is free. The caller's Run must still be counted in Engine.runs, so
// that waiting for the runs and then for the closers misses none.
func (c *closers) retire(l *live, release func()) {
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
		l.close()
	})
}

func (c *closers) wait() { c.running.Wait() }

func (c *closers) count() int { return int(c.closing.Load()) }
