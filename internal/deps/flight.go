package deps

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// flights lets all that want the same wait for one.
type flights struct {
	mu  sync.Mutex
	all map[string]*flight
}

type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting int // who wants the outcome
	answer  answer
	err     error
}

// do calls work once for all that ask for the same key at the same time, and returns its outcome. Work goes on while anybody waits for it.
func (f *flights) do(ctx context.Context, key string, work func(context.Context) (answer, error)) (answer, error) {
	f.mu.Lock()
	one := f.all[key]
	if one == nil {
		// The caller's values stay; its end is not that of the others.
		shared, cancel := context.WithCancel(context.WithoutCancel(ctx))
		one = &flight{done: make(chan struct{}), cancel: cancel}
		if f.all == nil {
			f.all = map[string]*flight{}
		}
		f.all[key] = one
		go func() { // ends with work, which ends once nobody waits
			defer cancel()
			one.answer, one.err = work(shared)
			f.mu.Lock()
			if f.all[key] == one {
				delete(f.all, key)
			}
			f.mu.Unlock()
			close(one.done)
		}()
	}
	one.waiting++
	f.mu.Unlock()
	select {
	case <-one.done:
		return one.answer, one.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	one.waiting--
	last := one.waiting == 0
	if last && f.all[key] == one {
		delete(f.all, key) // whoever asks now begins anew
	}
	f.mu.Unlock()
	if last {
		one.cancel()
		<-one.done // nothing goes on behind its caller's back
	}
	return answer{}, context.Cause(ctx)
}

// lockEvery is how often a lock that another process has is tried.
const lockEvery = 50 * time.Millisecond

// lock keeps other processes from the work of a key until unlock. Keys with the same beginning share a lock, so that locks stay few.
func (c *Cache) lock(ctx context.Context, key string) (unlock func(), err error) {
	f, err := os.OpenFile(c.path(requestsDir, key[:2]+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := tryLock(f)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(lockEvery):
		}
	}
}
