package packages

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cputime"
	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// flights runs one installation for all concurrent requests with the same key.
type flights struct {
	mu  sync.Mutex
	all map[string]*flight
}

type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting map[chan string]bool // the progress channel of each caller that uses the outcome
	kept                         // valid once done is closed
	err     error
}

// kept is an answer whose layer is kept until release.
type kept struct {
	answer
	release func()
}

// workFunc installs, and reports progress by its second parameter.
type workFunc func(context.Context, func(string)) (kept, error)

// maxPending limits the lines of progress that wait for a slow caller. Further lines are dropped.
const maxPending = 64

// do calls work once for all concurrent callers with the same key, and returns its outcome, which each caller releases.
// Work is canceled when the last caller leaves. Each do calls its own tell, so that tell is never called after do
// returns, and a slow tell delays no other caller.
func (f *flights) do(ctx context.Context, key string, tell func(string), work workFunc) (kept, error) {
	f.mu.Lock()
	one := f.all[key]
	if one == nil {
		// Work keeps the values of the first caller's context, but not its cancellation.
		shared, cancel := context.WithCancel(cputime.Without(context.WithoutCancel(ctx)))
		one = &flight{done: make(chan struct{}), cancel: cancel, waiting: map[chan string]bool{}}
		if f.all == nil {
			f.all = map[string]*flight{}
		}
		f.all[key] = one
		go func() { // ends with work
			defer cancel()
			cputime.Clear()
			one.kept, one.err = contained(shared, func(line string) { f.tell(one, line) }, work)
			f.mu.Lock()
			if f.all[key] == one {
				delete(f.all, key)
			}
			f.mu.Unlock()
			close(one.done)
		}()
	}
	lines := make(chan string, maxPending)
	one.waiting[lines] = true
	f.mu.Unlock()
	for ctx.Err() == nil {
		select {
		case line := <-lines:
			tell(line)
		case <-one.done:
			for len(lines) > 0 {
				tell(<-lines)
			}
			if one.err != nil {
				return kept{}, one.err
			}
			return kept{one.answer, func() { f.leave(key, one, lines) }}, nil
		case <-ctx.Done():
		}
	}
	f.leave(key, one, lines)
	return kept{}, context.Cause(ctx)
}

// leave removes a caller from a flight. The last one cancels the work and releases its outcome.
func (f *flights) leave(key string, one *flight, lines chan string) {
	f.mu.Lock()
	delete(one.waiting, lines)
	last := len(one.waiting) == 0
	if last && f.all[key] == one {
		delete(f.all, key) // the next caller starts a new flight
	}
	f.mu.Unlock()
	if !last {
		return
	}
	one.cancel()
	<-one.done // no work continues after its last caller has left
	if one.err == nil {
		one.release()
	}
}

// contained converts a panic to an error. Work reads hostile data, and a panic in this goroutine would end the process.
func contained(ctx context.Context, tell func(string), work workFunc) (k kept, err error) {
	defer func() {
		if p := recover(); p != nil {
			k, err = kept{}, &sandbox.Error{Kind: sandbox.Internal, Op: "packages",
				Msg: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	return work(ctx, tell)
}

// tell sends a line of progress to all callers.
func (f *flights) tell(one *flight, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for lines := range one.waiting {
		select {
		case lines <- line:
		default:
		}
	}
}

const (
	lockEvery = 50 * time.Millisecond // between attempts to lock
	lockWait  = 2 * time.Minute       // maximum wait for a lock
)

// lock locks the work of a key against other callers and processes until unlock. The holder may wait for a slot, or
// hang. So after lockWait, lock returns without the lock, and locked is false: the work is done twice, which does no
// other harm.
func (c *Cache) lock(ctx context.Context, key string, tell func(string)) (unlock func(), locked bool, err error) {
	path := c.request(key + ".lock")
	late := time.After(lockWait)
	for told := false; ; {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, false, err
		}
		err = filelock.Try(f)
		if err == nil && filelock.IsAt(f, path) { // otherwise the last holder removed it while we waited
			return func() {
				_ = os.Remove(path) // forgetOld tries again
				f.Close()
			}, true, nil
		}
		f.Close()
		switch {
		case err == nil:
			continue
		case !filelock.Held(err):
			return nil, false, err
		case !told:
			tell("waiting for another run that installs the same packages")
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-late:
			return func() {}, false, nil
		case <-time.After(lockEvery):
		}
	}
}
