package engine

import (
	"container/list"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Bounds of what a Busy error tells its caller about when to come back.
const (
	leastRetryAfter = time.Second
	mostRetryAfter  = time.Minute
)

// admission hands out slots. At most `queue` callers wait, and no owner has more than its share of slots and queue. Where there are shares, the
// last free slot is for an owner that has none: two owners with half of the slots each would lock all others out. A slot that is given
// back goes round among the owners that wait, and within one to who has waited longest.
type admission struct {
	slots, queue           int
	ownerSlots, ownerQueue int // of these, the most that one owner may have
	timeout                time.Duration

	mu       sync.Mutex // guards all below, and the owners
	free     int
	waiting  int
	owners   map[string]*owner // those that hold a slot or wait
	line     list.List         // of *owner: those that wait, first the one whose turn it is
	draining bool              // no new callers; those that wait are still served
	typical  time.Duration     // moving average of how long a slot is held
}

// owner is one of those who share the slots.
type owner struct {
	name    string
	held    int           // slots
	waiting list.List     // of *waiter
	place   *list.Element // in the line; nil where nobody waits
}

func (o *owner) String() string {
	if o.name == "" {
		return "requests without a name"
	}
	return strconv.Quote(o.name)
}

// waiter is one place in the queue. ready is closed, with the slot already taken for the waiter, by whoever gives one back.
type waiter struct{ ready chan struct{} }

func newAdmission(slots, queue int, timeout time.Duration) *admission {
	return &admission{slots: slots, queue: queue, ownerSlots: slots, ownerQueue: queue, timeout: timeout, free: slots, owners: map[string]*owner{}}
}

// share bounds what one owner may have; 0 is all.
func (a *admission) share(slots, queue int) {
	if slots > 0 {
		a.ownerSlots = min(slots, a.slots)
	}
	if queue > 0 {
		a.ownerQueue = min(queue, a.queue)
	}
}

// acquire takes a slot, waiting in the queue where none is free for this owner. It returns a Busy error when the queue or the owner's share of
// it is full or the wait was too long, Unavailable while draining, and ctx's error when ctx ends first. begin is called, under the lock, as
// soon as the caller is admitted to a slot or to the queue; after an error of ctx or time the caller has left both.
//
// The slot is held by whoever got a nil error and by nobody else; they give it back with release, once.
func (a *admission) acquire(ctx context.Context, name string, begin func()) error {
	a.mu.Lock()
	if a.draining {
		a.mu.Unlock()
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "admit", Msg: "this server is shutting down"}
	}
	o := a.owners[name]
	if o == nil {
		o = &owner{name: name}
		a.owners[name] = o
	}
	if a.offers(o) { // then nobody of this owner waits: handOut served them first
		a.free--
		o.held++
		begin()
		a.mu.Unlock()
		return nil
	}
	if err := a.full(o); err != nil {
		a.forget(o)
		a.mu.Unlock()
		return err
	}
	w := &waiter{ready: make(chan struct{})}
	place := o.waiting.PushBack(w)
	a.waiting++
	if o.place == nil {
		o.place = a.line.PushBack(o)
	}
	begin()
	a.mu.Unlock()
	return a.wait(ctx, o, w, place)
}

func (a *admission) wait(ctx context.Context, o *owner, w *waiter, place *list.Element) error {
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
		a.giveBack(o)
	default:
		a.leave(o, place)
		a.forget(o)
	}
	if err == nil {
		err = a.late(o)
	}
	return err
}

// release gives an owner's slot back after it was held for so long.
func (a *admission) release(name string, held time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	const weight = 8 // one slot in eight counts: a few odd ones do not sway the estimate
	if a.typical == 0 {
		a.typical = held
	}
	a.typical += (held - a.typical) / weight
	a.giveBack(a.owners[name])
}

// giveBack takes a slot from an owner and hands it on. It is called with mu held, as all below are.
func (a *admission) giveBack(o *owner) {
	a.free++
	if o == nil || o.held == 0 || a.free > a.slots {
		panic("engine: a slot was given back twice")
	}
	o.held--
	a.handOut()
	a.forget(o)
}

// offers says whether there is a slot for an owner.
func (a *admission) offers(o *owner) bool {
	left := a.free
	if a.ownerSlots < a.slots && o.held > 0 {
		left--
	}
	return left > 0 && o.held < a.ownerSlots
}

// handOut gives a free slot to the next in line who may have one more. It is called for each slot that comes back, so there is never more than
// one to give: else the line would be empty, or all in it would have their share.
func (a *admission) handOut() {
	for e := a.line.Front(); e != nil; e = e.Next() {
		o := e.Value.(*owner)
		if !a.offers(o) {
			continue
		}
		a.line.MoveToBack(e)
		first := o.waiting.Front()
		a.leave(o, first)
		a.free--
		o.held++
		close(first.Value.(*waiter).ready)
		return
	}
}

// leave takes a place from the queue.
func (a *admission) leave(o *owner, place *list.Element) {
	o.waiting.Remove(place)
	a.waiting--
	if o.waiting.Len() == 0 {
		a.line.Remove(o.place)
		o.place = nil
	}
}

// forget lets go of an owner who has nothing here.
func (a *admission) forget(o *owner) {
	if o.held == 0 && o.waiting.Len() == 0 {
		delete(a.owners, o.name)
	}
}

// full says why no more of an owner may wait, or nil.
func (a *admission) full(o *owner) error {
	switch {
	case o.waiting.Len() >= a.ownerQueue && (a.ownerQueue < a.queue || a.free > 0):
		return a.busy(o.waiting.Len(), a.ownerSlots, fmt.Sprintf("the share of %s is full: %d of %d slots, %d of %d places in the queue",
			o, o.held, a.ownerSlots, o.waiting.Len(), a.ownerQueue))
	case a.waiting >= a.queue:
		return a.busy(a.waiting, a.slots, "all slots are in use and the queue is full")
	}
	return nil
}

// late says that a wait was too long.
func (a *admission) late(o *owner) error {
	if a.free > 0 { // for others
		return a.busy(o.waiting.Len(), a.ownerSlots, fmt.Sprintf("no slot of the share of %s became free in %s", o, a.timeout))
	}
	return a.busy(a.waiting, a.slots, "no slot became free in "+a.timeout.String())
}

// busy estimates when a slot will be free for one more than those that wait for so many slots.
func (a *admission) busy(waiting, slots int, msg string) error {
	rounds := time.Duration(waiting/slots + 1)
	after := min(max(a.typical*rounds, leastRetryAfter), mostRetryAfter)
	return &sandbox.Error{Kind: sandbox.Busy, Op: "admit", Msg: msg, Fix: "try again later", RetryAfter: after.Round(time.Second)}
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
	return a.slots - a.free, a.waiting, a.draining
}
