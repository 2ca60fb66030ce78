// Package room limits a quantity that is held at the same time, for all owners and for each: bytes in memory, open
// connections.
package room

import (
	queue "container/list"
	"context"
	"sync"
	"time"
)

// Room limits a quantity. Its methods are safe for concurrent use.
type Room struct {
	most, share int64
	kept, below int64

	mu      sync.Mutex // guards all below
	held    int64
	owners  map[string]int64
	waiting queue.List // of *waiter, oldest first
}

// waiter is a call of Wait.
type waiter struct {
	owner string
	n     int64
	taken chan struct{} // closed when it has n
}

// New returns a room of a size, of which one owner may hold at most share.
func New(most, share int64) *Room {
	return &Room{most: most, share: share, owners: map[string]int64{}}
}

// Halves returns a room of which one owner may hold half. The last eighth is for owners with less than a sixteenth: two
// with half each would lock all others out.
func Halves(most int64) *Room {
	r := New(most, (most+1)/2)
	r.Keep(most/8, most/16)
	return r
}

// Keep keeps the last part of the room for owners that hold less than below, so that few owners cannot lock all others
// out. It must be called before the room is used.
func (r *Room) Keep(part, below int64) { r.kept, r.below = part, below }

// Share is the most that one owner may hold.
func (r *Room) Share() int64 { return r.share }

// Take takes n if it is free.
func (r *Room) Take(owner string, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.take(owner, n)
}

// take is Take. The caller holds mu.
func (r *Room) take(owner string, n int64) bool {
	most, owned := r.most, r.owners[owner]+n
	if owned > r.below {
		most -= r.kept
	}
	if r.held+n > most || owned > r.share {
		return false
	}
	r.held += n
	r.owners[owner] = owned
	return true
}

// Wait takes n as soon as it is free. It returns false if that takes too long or ctx ends first.
func (r *Room) Wait(ctx context.Context, owner string, n int64, longest time.Duration) bool {
	r.mu.Lock()
	if r.take(owner, n) {
		r.mu.Unlock()
		return true
	}
	w := &waiter{owner: owner, n: n, taken: make(chan struct{})}
	place := r.waiting.PushBack(w)
	r.mu.Unlock()
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-w.taken:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-w.taken: // at the same moment
		return true
	default:
		r.waiting.Remove(place)
		return false
	}
}

// Give gives back what Take or Wait took.
func (r *Room) Give(owner string, n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= n
	r.free(owner, n)
}

// Move makes what one owner holds another's, even past the share.
func (r *Room) Move(from, to string, n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners[to] += n
	r.free(from, n)
}

// free takes n from an owner's part, for the oldest of those who wait and find room. The caller holds mu.
func (r *Room) free(owner string, n int64) {
	if r.owners[owner] -= n; r.owners[owner] == 0 {
		delete(r.owners, owner)
	}
	for e := r.waiting.Front(); e != nil; {
		w, place := e.Value.(*waiter), e
		if e = e.Next(); r.take(w.owner, w.n) {
			r.waiting.Remove(place)
			close(w.taken)
		}
	}
}

// Held returns how much all owners hold.
func (r *Room) Held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// HeldBy returns how much one owner holds.
func (r *Room) HeldBy(owner string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owners[owner]
}
