package packages

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestOwnersApart: a run gets the errors of its own worker alone, though another owner's is at the same work.
func TestOwnersApart(t *testing.T) {
	r := newRig(t)
	ask := func(owner string, work sandbox.Worker, progress func(string)) error {
		need := r.need(sandbox.Packages{Requirements: []string{"a"}})
		need.Terms, need.Progress = owner, progress
		s, err := r.p.Supply(t.Context(), need, work)
		if err == nil {
			s.Release()
		}
		return err
	}
	var once sync.Once
	begun, waits, first := make(chan bool), make(chan bool), make(chan error)
	go func() {
		first <- ask("first", func(ctx context.Context, w sandbox.Work) (*sandbox.Result, error) {
			if w.Take == nil {
				return r.work(ctx, w)
			}
			close(begun)
			for waiting := true; waiting; {
				w.Output(sandbox.Stderr, []byte("step\n")) // as all who wait for this work are told
				select {
				case <-waits:
					waiting = false
				case <-time.After(time.Millisecond):
				}
			}
			return nil, &sandbox.Error{Kind: sandbox.Busy, Op: "admit", Msg: `no slot of the share of "first" became free`}
		}, nil)
	}()
	<-begun
	err := ask("second", r.work, func(string) { once.Do(func() { close(waits) }) })
	if err != nil || r.installs != 1 {
		t.Errorf("%v, %d installs", err, r.installs)
	}
	if err := <-first; sandbox.KindOf(err) != sandbox.Busy {
		t.Errorf("%v", err)
	}
}

// TestOwnersInstallOnce: what one owner's worker installed is there for all.
func TestOwnersInstallOnce(t *testing.T) {
	r := newRig(t)
	var all sync.WaitGroup
	start := make(chan struct{})
	for owner := range 50 {
		all.Go(func() {
			need := r.need(sandbox.Packages{Requirements: []string{"a"}})
			need.Terms = fmt.Sprint(owner)
			<-start
			if s, err := r.p.Supply(t.Context(), need, r.work); err != nil {
				t.Error(err)
			} else {
				s.Release()
			}
		})
	}
	close(start)
	all.Wait()
	if r.installs != 1 {
		t.Errorf("%d installs", r.installs)
	}
}

// TestLockWait: who holds a lock and does nothing does not keep others from their work.
func TestLockWait(t *testing.T) {
	c, told := newCache(t), 0
	tell := func(string) { told++ }
	synctest.Test(t, func(t *testing.T) {
		unlock, alone, err := c.lock(t.Context(), "key", tell)
		if err != nil || !alone || told != 0 {
			t.Fatalf("%v %v %d", alone, err, told)
		}
		defer unlock()
		begun := time.Now()
		unlockSecond, alone, err := c.lock(t.Context(), "key", tell)
		if waited := time.Since(begun); err != nil || alone || told != 1 || waited != lockWait {
			t.Errorf("after %v: %v %v, told %d times", waited, alone, err, told)
		}
		unlockSecond()
	})
}

// taken has Answers without any, whose locks another machine has.
type taken struct {
	Answers
	asked int
}

func (*taken) Get(context.Context, string, int) ([]byte, error) { return nil, nil }

func (a *taken) Lock(context.Context, string, string, time.Duration) (bool, error) {
	a.asked++
	return false, nil
}

// TestTakeWithoutWait: whoever waited long enough for this machine's lock does not wait for another machine's.
func TestTakeWithoutWait(t *testing.T) {
	answers := &taken{}
	p := New(Config{Shared: Shared{Answers: answers, Archives: struct{ Archives }{}}})
	_, ok, release := (&job{packager: p, tell: func(string) {}}).take(t.Context(), "key", false)
	release()
	if ok || answers.asked != 0 {
		t.Errorf("%v, asked %d times", ok, answers.asked)
	}
}
