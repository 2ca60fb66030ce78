// Package room limits a quantity that is held at the same time, for all owners and for each: bytes in memory, open
// connections.
package room

import (
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
	changed chan struct{} // closed and replaced when a part becomes free
}

// New returns a room of a size, of which one owner may hold at most share.
func New(most, share int64) *Room {
	return &Room{most: most, share: share, owners: map[string]int64{}, changed: make(chan struct{})}
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
	ok, _ := r.try(owner, n)
	return ok
}

// try is Take; on failure it returns a channel that closes when a part becomes free.
func (r *Room) try(owner string, n int64) (ok bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := r.most
	if r.owners[owner]+n > r.below {
		most -= r.kept
	}
	if r.held+n > most || r.owners[owner]+n > r.share {
		return false, r.changed
	}
	r.held += n
	r.owners[owner] += n
	return true, nil
}

// Wait takes n as soon as it is free. It returns false if that takes too long or ctx ends first.
func (r *Room) Wait(ctx context.Context, owner string, n int64, longest time.Duration) bool {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	for {
		ok, changed := r.try(owner, n)
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
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

// free takes n from an owner's part, and wakes those who wait. The caller holds mu.
func (r *Room) free(owner string, n int64) {
	if r.owners[owner] -= n; r.owners[owner] == 0 {
		delete(r.owners, owner)
	}
	close(r.changed)
	r.changed = make(chan struct{})
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
