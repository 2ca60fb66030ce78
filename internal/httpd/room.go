package httpd

import (
	"context"
	"sync"
	"time"
)

// room bounds the bytes that are held for all clients at the same time, and for each owner: one may hold half at the most, so
// that nobody can take it all from the others. Bodies have one room and answers another.
type room struct {
	most int64

	mu      sync.Mutex // guards all below
	held    int64
	owners  map[string]int64
	changed chan struct{} // closed, and made anew, when bytes are given back
}

func newRoom(most int64) *room {
	return &room{most: most, owners: map[string]int64{}, changed: make(chan struct{})}
}

// share is the most bytes of one owner.
func (r *room) share() int64 { return r.most / 2 }

// take takes n bytes, if they are free now.
func (r *room) take(owner string, n int64) bool {
	ok, _ := r.try(owner, n)
	return ok
}

// try is take, and otherwise returns what is closed when another try is worth it.
func (r *room) try(owner string, n int64) (ok bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held+n > r.most || r.owners[owner]+n > r.share() {
		return false, r.changed
	}
	r.held += n
	r.owners[owner] += n
	return true, nil
}

// wait takes n bytes as soon as they are free. It returns false when that takes longer than the given time, or ctx ends first.
func (r *room) wait(ctx context.Context, owner string, n int64, longest time.Duration) bool {
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

// give gives back what take or wait took.
func (r *room) give(owner string, n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= n
	if r.owners[owner] -= n; r.owners[owner] == 0 {
		delete(r.owners, owner)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// holds is how many bytes are held now.
func (r *room) holds() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}
