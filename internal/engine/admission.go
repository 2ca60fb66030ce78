package engine

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Bounds of what a Busy error tells its caller about when to come back.
const (
	leastRetryAfter = time.Second
	mostRetryAfter  = time.Minute
)

// admission hands out slots in the order in which they were asked for. At most `queue` callers wait.
type admission struct {
	slots   int
	queue   int
	timeout time.Duration

	mu       sync.Mutex // guards all below
	free     int
	waiting  list.List     // of *waiter
	draining bool          // no new callers; those that wait are still served
	typical  time.Duration // moving average of how long a slot is held
}

// waiter is one place in the queue. ready is closed, with the slot already taken for the waiter, by whoever gives one back.
type waiter struct{ ready chan struct{} }

func newAdmission(slots, queue int, timeout time.Duration) *admission {
	return &admission{slots: slots, queue: queue, timeout: timeout, free: slots}
}

// acquire takes a slot, waiting in the queue where none is free. It returns a Busy error when the queue is full or the wait
// was too long, Unavailable while draining, and ctx's error when ctx ends first. begin is called, under the lock, as soon as
// the caller is admitted to a slot or to the queue; after an error of ctx or time the caller has left both.
//
// The slot is held by whoever got a nil error and by nobody else; they give it back with release, once.
func (a *admission) acquire(ctx context.Context, begin func()) error {
	a.mu.Lock()
	if a.draining {
		a.mu.Unlock()
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "admit", Msg: "this server is shutting down"}
	}
	if a.free > 0 { // then nobody waits: release serves the queue first
		a.free--
		begin()
		a.mu.Unlock()
		return nil
	}
	if a.waiting.Len() >= a.queue {
		err := a.busy("all slots are in use and the queue is full")
		a.mu.Unlock()
		return err
	}
	w := &waiter{ready: make(chan struct{})}
	place := a.waiting.PushBack(w)
	begin()
	a.mu.Unlock()
	return a.wait(ctx, w, place)
}

func (a *admission) wait(ctx context.Context, w *waiter, place *list.Element) error {
	timer := time.NewTimer(a.timeout)
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-w.ready: // a slot came at the same moment: it goes to the next in line
		a.giveBack()
	default:
		a.waiting.Remove(place)
	}
	if err == nil {
		err = a.busy("no slot became free in " + a.timeout.String())
	}
	return err
}

// release gives a slot back after it was held for so long.
func (a *admission) release(held time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	const weight = 8 // one slot in eight counts: a few odd ones do not sway the estimate
	if a.typical == 0 {
		a.typical = held
	}
	a.typical += (held - a.typical) / weight
	a.giveBack()
}

// giveBack hands a slot to the first that waits, or puts it back. It is called with mu held.
func (a *admission) giveBack() {
	if first := a.waiting.Front(); first != nil {
		close(a.waiting.Remove(first).(*waiter).ready)
		return
	}
	a.free++
	if a.free > a.slots {
		panic("engine: a slot was given back twice")
	}
}

// busy estimates when a slot will be free for one more. It is called with mu held.
func (a *admission) busy(msg string) error {
	rounds := time.Duration(a.waiting.Len()/a.slots + 1)
	after := min(max(a.typical*rounds, leastRetryAfter), mostRetryAfter)
	return &sandbox.Error{Kind: sandbox.Busy, Op: "admit", Msg: msg, Mend: "try again later", RetryAfter: after.Round(time.Second)}
}

func (a *admission) drain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.draining = true
}

// load says how many slots are held and how many callers wait.
func (a *admission) load() (held, waiting int, draining bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.slots - a.free, a.waiting.Len(), a.draining
}
