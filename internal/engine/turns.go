package engine

import (
	"slices"
	"sync"
)

// turns are the calls that have a context one after another, in the order in which they joined. The zero value has
// none.
type turns struct {
	mu    sync.Mutex
	queue []*turn // the first has the context
}

// turn is the place of a call among those for a context.
type turn struct {
	of    *turns
	ready chan struct{} // closed once the call has the context
}

// join returns the place after all others. The caller leaves it.
func (t *turns) join() *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := &turn{of: t, ready: make(chan struct{})}
	if t.queue = append(t.queue, one); len(t.queue) == 1 {
		close(one.ready)
	}
	return one
}

// isReady reports whether the call has the context.
func (t *turn) isReady() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// leave gives the place up, whether or not the call has the context. It may be called twice.
func (t *turn) leave() {
	q := t.of
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.queue, t)
	if i < 0 {
		return // it left before
	}
	q.queue = slices.Delete(q.queue, i, i+1)
	if i == 0 && len(q.queue) > 0 {
		close(q.queue[0].ready)
	}
}
