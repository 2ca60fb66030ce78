package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// flights lets all that want the same wait for one.
type flights struct {
	mu  sync.Mutex
	all map[string]*flight
}

type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting map[chan string]bool // those who want the outcome, with what they are told meanwhile
	kept                         // valid once done is closed
	err     error
}

// kept is an answer whose layer stays until release.
type kept struct {
	answer
	release func()
}

// heard is how many lines of progress wait for one who is slow; the rest are dropped.
const heard = 64

// do calls work once for all that ask for the same key at the same time, and returns its outcome, which each of them releases. Work goes on while
// anybody waits for it. Each tell is called by its own do, so that none is called after its end or holds up the others.
func (f *flights) do(ctx context.Context, key string, tell func(string), work func(context.Context, func(string)) (kept, error)) (kept, error) {
	f.mu.Lock()
	one := f.all[key]
	if one == nil {
		// The caller's values stay; its end is not that of the others.
		shared, cancel := context.WithCancel(context.WithoutCancel(ctx))
		one = &flight{done: make(chan struct{}), cancel: cancel, waiting: map[chan string]bool{}}
		if f.all == nil {
			f.all = map[string]*flight{}
		}
		f.all[key] = one
		go func() { // ends with work, which ends once nobody waits
			defer cancel()
			one.kept, one.err = contained(shared, func(line string) { f.tell(one, line) }, work)
			f.mu.Lock()
			if f.all[key] == one {
				delete(f.all, key)
			}
			f.mu.Unlock()
			close(one.done)
		}()
	}
	lines := make(chan string, heard)
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

// leave ends what one that waited for a flight, or has its outcome, needs of it.
func (f *flights) leave(key string, one *flight, lines chan string) {
	f.mu.Lock()
	delete(one.waiting, lines)
	last := len(one.waiting) == 0
	if last && f.all[key] == one {
		delete(f.all, key) // whoever asks now begins anew
	}
	f.mu.Unlock()
	if !last {
		return
	}
	one.cancel()
	<-one.done // nothing goes on behind its caller's back
	if one.err == nil {
		one.release()
	}
}

// contained turns a panic into an error: what work reads is hostile, and here it would end the process.
func contained(ctx context.Context, tell func(string), work func(context.Context, func(string)) (kept, error)) (k kept, err error) {
	defer func() {
		if p := recover(); p != nil {
			k, err = kept{}, &sandbox.Error{Kind: sandbox.Internal, Op: "packages", Msg: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	return work(ctx, tell)
}

// tell passes a line on to all that wait.
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
	lockEvery = 50 * time.Millisecond // how often a lock that another has is tried
	lockWait  = 2 * time.Minute       // longest wait for one
)

// lock keeps others, also other processes, from the work of a key until unlock. Whoever has it may wait for a slot, or hang: after lockWait, alone is
// false. The work is done a second time then, which costs that and nothing else.
func (c *Cache) lock(ctx context.Context, key string, tell func(string)) (unlock func(), alone bool, err error) {
	path := c.path(requestsDir, key+".lock")
	late := time.After(lockWait)
	for told := false; ; {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, false, err
		}
		err = tryLock(f)
		if err == nil && isAt(f, path) { // the last to have it removed it, while we waited
			return func() {
				_ = os.Remove(path) // forgetOld tries again
				f.Close()
			}, true, nil
		}
		f.Close()
		switch {
		case err == nil:
			continue
		case !errors.Is(err, errLocked):
			return nil, false, err
		case !told:
			tell("waiting for another run, which installs the same")
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
