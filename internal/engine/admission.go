package engine

import (
	"container/list"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of RetryAfter in a Busy error.
const (
	leastRetryAfter = time.Second
	mostRetryAfter  = time.Minute
)

// admission hands out slots. At most `queue` callers wait, and no owner exceeds its share of slots and queue. With
// shares, the last free slot is for an owner that has none: two owners with half of the slots each would lock all
// others out. A released slot goes to the waiting owners in turn, and within an owner to the longest waiter.
type admission struct {
	slots, queue           int
	ownerSlots, ownerQueue int // limits for one owner
	timeout                time.Duration

	mu       sync.Mutex // guards all below, and the owners
	free     int
	waiting  int
	owners   map[string]*owner // owners that hold a slot or wait
	line     list.List         // of *owner: those that wait, the next one first
	draining bool              // no new callers; waiters are still served
	typical  time.Duration     // moving average of the time a slot is held
	fullAt   time.Time         // since when there is neither a slot nor a place in the queue; zero while there is
}

// owner is one of those that share the slots.
type owner struct {
	name    string
	held    int           // slots
	waiting list.List     // of *waiter
	place   *list.Element // in the line; nil without waiters
}

func (o *owner) String() string {
	if o.name == "" {
		return "requests without a name"
	}
	return strconv.Quote(o.name)
}

// waiter is one place in the queue. handOut takes the slot for the waiter, then closes ready.
type waiter struct{ ready chan struct{} }

func newAdmission(slots, queue int, timeout time.Duration) *admission {
	return &admission{slots: slots, queue: queue, ownerSlots: slots, ownerQueue: queue, timeout: timeout, free: slots,
		owners: map[string]*owner{}}
}

// share limits one owner to a part; 0 is all. Free slots go to those who may have them now.
func (a *admission) share(slots, queue int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ownerSlots, a.ownerQueue = a.slots, a.queue
	if slots > 0 {
		a.ownerSlots = min(slots, a.slots)
	}
	if queue > 0 {
		a.ownerQueue = min(queue, a.queue)
	}
	for range a.free {
		a.handOut()
	}
}

// divides reports whether owners have shares.
func (a *admission) divides() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ownerSlots < a.slots
}

// acquire takes a slot, or waits for one in the queue. It returns a Busy error if the queue or the owner's share of it
// is full or the wait was too long, Unavailable while draining, and ctx's error if ctx ends first. It calls begin,
// under the lock, as soon as the caller has a slot or a place in the queue.
//
// Only after a nil error does the caller hold a slot. It must release it once.
func (a *admission) acquire(ctx context.Context, name string, begin func()) error {
	return a.take(ctx, name, begin, false)
}

// take is acquire. A caller that has entered is also admitted while draining.
func (a *admission) take(ctx context.Context, name string, begin func(), entered bool) error {
	a.mu.Lock()
	if a.draining && !entered {
		a.mu.Unlock()
		return errDraining()
	}
	o := a.owners[name]
	if o == nil {
		o = &owner{name: name}
		a.owners[name] = o
	}
	if a.offers(o) { // then no one of this owner waits: handOut served them first
		a.free--
		o.held++
		begin()
		a.noteFull()
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
	a.noteFull()
	a.mu.Unlock()
	return a.wait(ctx, o, w, place)
}

// enter admits what will take slots later, and calls begin under the lock.
func (a *admission) enter(begin func()) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining {
		return errDraining()
	}
	begin()
	return nil
}

func errDraining() error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "admit", Msg: "this server is shutting down"}
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
	case <-w.ready: // a slot came at the same moment: pass it on
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

// release frees an owner's slot, which was held for the given time.
func (a *admission) release(name string, held time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	const weight = 8 // a few outliers do not sway the average
	if a.typical == 0 {
		a.typical = held
	}
	a.typical += (held - a.typical) / weight
	a.giveBack(a.owners[name])
}

// giveBack takes a slot from an owner and hands it on. Callers of it and of all functions below hold mu.
func (a *admission) giveBack(o *owner) {
	a.free++
	if o == nil || o.held == 0 || a.free > a.slots {
		panic("engine: a slot was given back twice")
	}
	o.held--
	a.handOut()
	a.forget(o)
	a.noteFull()
}

// noteFull notes since when neither a slot nor a place in the queue is free.
func (a *admission) noteFull() {
	switch full := a.free == 0 && a.waiting >= a.queue; {
	case !full:
		a.fullAt = time.Time{}
	case a.fullAt.IsZero():
		a.fullAt = time.Now()
	}
}

// offers reports whether there is a slot for an owner.
func (a *admission) offers(o *owner) bool {
	left := a.free
	if a.ownerSlots < a.slots && o.held > 0 {
		left--
	}
	return left > 0 && o.held < a.ownerSlots
}

// handOut gives a free slot to the next owner in line that is below its share. It is called for each freed slot, so
// there is at most one to give.
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

// leave removes a waiter from the queue.
func (a *admission) leave(o *owner, place *list.Element) {
	o.waiting.Remove(place)
	a.waiting--
	a.noteFull()
	if o.waiting.Len() == 0 {
		a.line.Remove(o.place)
		o.place = nil
	}
}

// forget removes an owner without slots and waiters.
func (a *admission) forget(o *owner) {
	if o.held == 0 && o.waiting.Len() == 0 {
		delete(a.owners, o.name)
	}
}

// full returns why no more of an owner may wait, or nil.
func (a *admission) full(o *owner) error {
	switch {
	case o.waiting.Len() >= a.ownerQueue && (a.ownerQueue < a.queue || a.free > 0):
		return a.busy(o.waiting.Len(), a.ownerSlots,
			fmt.Sprintf("the share of %s is full: %d of %d slots, %d of %d places in the queue",
				o, o.held, a.ownerSlots, o.waiting.Len(), a.ownerQueue))
	case a.waiting >= a.queue:
		return a.busy(a.waiting, a.slots, "all slots are in use and the queue is full")
	}
	return nil
}

// late is the error of a wait that was too long.
func (a *admission) late(o *owner) error {
	if a.free > 0 { // for others
		return a.busy(o.waiting.Len(), a.ownerSlots,
			fmt.Sprintf("no slot of the share of %s became free in %s", o, a.timeout))
	}
	return a.busy(a.waiting, a.slots, "no slot became free in "+a.timeout.String())
}

// busy estimates when a slot is free for one more than the current waiters.
func (a *admission) busy(waiting, slots int, msg string) error {
	rounds := time.Duration(waiting/slots + 1)
	after := min(max(a.typical*rounds, leastRetryAfter), mostRetryAfter)
	return &sandbox.Error{Kind: sandbox.Busy, Op: "admit", Msg: msg, Fix: "try again later",
		RetryAfter: after.Round(time.Second)}
}

func (a *admission) isDraining() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.draining
}

func (a *admission) drain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.draining = true
}

// load returns how many slots are held and how many callers wait.
func (a *admission) load() (held, waiting int, draining bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.slots - a.free, a.waiting, a.draining
}

// fullFor returns for how long there is neither a slot nor a place in the queue; 0 while there is.
func (a *admission) fullFor() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fullAt.IsZero() {
		return 0
	}
	return time.Since(a.fullAt)
}
