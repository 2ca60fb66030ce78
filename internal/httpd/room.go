package httpd

import (
	"context"
	"sync"
	"time"
)

// room limits the bytes held at the same time, for all clients and for each owner: one may hold at most half. Bodies
// have one room and answers another.
type room struct {
	most int64

	mu      sync.Mutex // guards all below
	held    int64
	owners  map[string]int64
	changed chan struct{} // closed and replaced when bytes are freed
}

func newRoom(most int64) *room {
	return &room{most: most, owners: map[string]int64{}, changed: make(chan struct{})}
}

// share is the most bytes of one owner.
func (r *room) share() int64 { return r.most / 2 }

// take takes n bytes if they are free.
func (r *room) take(owner string, n int64) bool {
	ok, _ := r.try(owner, n)
	return ok
}

// try is take; on failure it returns a channel that closes when bytes are freed.
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

// wait takes n bytes as soon as they are free. It returns false if that takes too long or ctx ends first.
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

// give frees bytes from take or wait.
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

// holds returns the bytes held now.
func (r *room) holds() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}
