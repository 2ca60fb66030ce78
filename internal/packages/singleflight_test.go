package packages

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestOwnersApart: a run gets only errors of its own worker, even if another owner installs the same packages.
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
			return nil, &sandbox.Error{Kind: sandbox.Busy, Op: "admit",
				Msg: `no slot of the share of "first" became free`}
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

// TestOwnersInstallOnce: packages that one owner's worker installed serve all owners.
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

// TestTakeWithoutWait: a caller that stopped waiting for the lock of this machine does not wait for another machine.
func TestTakeWithoutWait(t *testing.T) {
	answers := &taken{}
	p := New(Config{Shared: Shared{Answers: answers, Archives: struct{ Archives }{}}})
	_, ok, release := (&job{packager: p, tell: func(string) {}}).take(t.Context(), "key", false)
	release()
	if ok || answers.asked != 0 {
		t.Errorf("%v, asked %d times", ok, answers.asked)
	}
}

// TestTakeWait: a machine that has a lock and installs nothing does not keep others from their work.
func TestTakeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Shared: Shared{Answers: &taken{}, Archives: struct{ Archives }{}}})
		begun := time.Now()
		_, ok, release := (&job{packager: p, tell: func(string) {}}).take(t.Context(), "key", true)
		release()
		if waited := time.Since(begun); ok || waited < lockWait || waited > lockWait+tierPoll {
			t.Errorf("%v after %v", ok, waited)
		}
	})
}

// TestFlights: work ends when its last caller leaves, and not before. All callers that wait get its progress, and no
// others do.
func TestFlights(t *testing.T) {
	var f flights
	begun, told := make(chan func(string)), make(chan string)
	end := make(chan struct{})
	released := 0
	work := func(ctx context.Context, tell func(string)) (kept, error) {
		if client, _ := pprof.Label(ctx, "client"); client != "" {
			t.Errorf("it works for %s alone", client)
		}
		begun <- tell
		select {
		case <-ctx.Done():
			return kept{}, ctx.Err()
		case <-end:
			return kept{answer{Digest: "d"}, func() { released++ }}, nil
		}
	}
	type outcome struct {
		kept
		err error
	}
	ask := func(tell func(string)) (cancel func(), out chan outcome) {
		ctx, cancel := context.WithCancel(pprof.WithLabels(t.Context(), pprof.Labels("client", "alice")))
		out = make(chan outcome, 1)
		go func() {
			a, err := f.do(ctx, "key", tell, work)
			out <- outcome{a, err}
		}()
		return cancel, out
	}
	cancelFirst, first := ask(func(string) { t.Error("the first was told after its end") })
	tell := <-begun
	cancelSecond, second := ask(func(line string) { told <- line })
	for waiting := 0; waiting < 2; {
		f.mu.Lock()
		waiting = len(f.all["key"].waiting)
		f.mu.Unlock()
	}
	cancelFirst()
	if o := <-first; !errors.Is(o.err, context.Canceled) {
		t.Errorf("%+v", o)
	}
	for range 2 * maxPending { // nobody listens yet
		tell("line")
	}
	if line := <-told; line != "line" {
		t.Errorf("%q", line)
	}
	go func() {
		for range told {
		}
	}()
	close(end)
	o := <-second
	if o.Digest != "d" || o.err != nil || released != 0 {
		t.Errorf("%+v, %d", o, released)
	}
	if o.release(); released != 1 {
		t.Errorf("released %d times", released)
	}
	cancelSecond()
	close(told)

	end = nil
	cancel, out := ask(nil)
	<-begun
	cancel()
	if o = <-out; !errors.Is(o.err, context.Canceled) || len(f.all) != 0 {
		t.Errorf("%+v, %d go on", o, len(f.all))
	}
}

// TestFlightPanics: a panic in work is an error of its callers.
func TestFlightPanics(t *testing.T) {
	var f flights
	_, err := f.do(t.Context(), "key", func(string) {},
		func(context.Context, func(string)) (kept, error) { panic("hostile") })
	if sandbox.KindOf(err) != sandbox.Internal || err == nil || len(f.all) > 0 {
		t.Errorf("%v, %v", err, f.all)
	}
}

// TestSupplyAtOnce: equal needs install once, and a layer is kept though the cache is too small for it.
func TestSupplyAtOnce(t *testing.T) {
	r := newRig(t)
	r.p.config.MaxBytes = 1
	var all sync.WaitGroup
	start := make(chan struct{})
	for range 50 {
		all.Go(func() {
			<-start
			if s, err := r.p.Supply(t.Context(), r.need(sandbox.Packages{Requirements: []string{"a"}}),
				r.work); err != nil {
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
	if left := filesOf(t, r.p.cache.request("")); len(left) != 2 {
		t.Errorf("left: %q", left)
	}
}
