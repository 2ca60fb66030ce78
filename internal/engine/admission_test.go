package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestAdmissionOrder: whoever waits longer is served first, and one who leaves the queue is passed over.
func TestAdmissionOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 8, time.Hour)
		if err := a.acquire(t.Context(), func() {}); err != nil {
			t.Fatal(err)
		}
		var order []int
		ctx, leave := context.WithCancel(t.Context())
		for i := range 5 {
			go func() {
				mine := t.Context()
				if i == 2 {
					mine = ctx
				}
				if err := a.acquire(mine, func() {}); err != nil {
					if i != 2 || !errors.Is(err, context.Canceled) {
						t.Errorf("caller %d: %v", i, err)
					}
					return
				}
				order = append(order, i)
				a.release(time.Second)
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		a.release(time.Second)
		synctest.Wait()
		want := []int{0, 1, 3, 4}
		if len(order) != len(want) {
			t.Fatalf("served %v, want %v", order, want)
		}
		for i := range want {
			if order[i] != want[i] {
				t.Fatalf("served %v, want %v", order, want)
			}
		}
		if held, waiting, _ := a.load(); held != 0 || waiting != 0 {
			t.Errorf("%d slots held, %d wait at the end", held, waiting)
		}
	})
}

// TestAdmissionBusy: over the queue's bound a caller is refused at once, with a time to come back that grows with the load.
func TestAdmissionBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(2, 3, 10*time.Second)
		for range 2 {
			if err := a.acquire(t.Context(), func() {}); err != nil {
				t.Fatal(err)
			}
		}
		late := make(chan error, 3)
		for range 3 {
			go func() { late <- a.acquire(t.Context(), func() {}) }()
		}
		synctest.Wait()
		err := a.acquire(t.Context(), func() { t.Error("a refused caller was admitted") })
		if sandbox.KindOf(err) != sandbox.Busy || sandbox.RetryAfterOf(err) < leastRetryAfter {
			t.Errorf("got %v, retry after %v; want Busy with a time", err, sandbox.RetryAfterOf(err))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(late) != 3 {
			t.Fatalf("%d of 3 waited longer than the time-out", 3-len(late))
		}
		for range 3 {
			if err := <-late; sandbox.KindOf(err) != sandbox.Busy {
				t.Errorf("after the time-out: %v, want Busy", err)
			}
		}
		a.release(40 * time.Second)
		a.release(40 * time.Second)
		for range 2 { // refused ones gave nothing back that they did not hold
			if err := a.acquire(t.Context(), func() {}); err != nil {
				t.Fatal(err)
			}
		}
		go func() { _ = a.acquire(t.Context(), func() {}) }()
		synctest.Wait()
		if held, waiting, _ := a.load(); held != 2 || waiting != 1 {
			t.Errorf("held %d, waiting %d; want 2 and 1", held, waiting)
		}
		a.release(time.Second)
	})
}

func TestAdmissionDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 1, time.Hour)
		if err := a.acquire(t.Context(), func() {}); err != nil {
			t.Fatal(err)
		}
		served := false
		go func() { served = a.acquire(t.Context(), func() {}) == nil }()
		synctest.Wait()
		a.drain()
		if err := a.acquire(t.Context(), func() {}); sandbox.KindOf(err) != sandbox.Unavailable {
			t.Errorf("while draining: %v, want Unavailable", err)
		}
		a.release(time.Second)
		synctest.Wait()
		if !served {
			t.Error("a caller that waited when draining began was not served")
		}
	})
}

// TestAdmissionConservation drives random callers, some of which give up, through a small gate under a false clock. No moment has
// more holders than slots or more waiters than the queue, each caller ends in one way, and in the end all slots are back.
func TestAdmissionConservation(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { conserve(t, rand.New(rand.NewPCG(seed, 7))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func conserve(t *testing.T, r *rand.Rand) {
	slots, queue := 1+r.IntN(4), r.IntN(8)
	a := newAdmission(slots, queue, time.Duration(1+r.IntN(50))*time.Millisecond)
	var mu sync.Mutex // guards the counts
	var admitted, held, served, left, refused int
	callers := 20 + r.IntN(60)
	var all sync.WaitGroup
	for range callers {
		arrive, patience, work := delay(r), delay(r)+1, delay(r)
		all.Go(func() {
			time.Sleep(arrive)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			in := false
			err := a.acquire(ctx, func() { in = true })
			mu.Lock()
			if in {
				admitted++
			}
			switch {
			case err == nil && !in:
				t.Error("served without being admitted")
			case err == nil:
				if held++; held > slots {
					t.Errorf("%d hold %d slots", held, slots)
				}
				mu.Unlock()
				time.Sleep(work)
				mu.Lock()
				held--
				served++
				a.release(work)
			case sandbox.KindOf(err) == sandbox.Busy && !in:
				refused++
			default:
				left++
			}
			_, waiting, _ := a.load()
			if waiting > queue {
				t.Errorf("%d wait in a queue of %d", waiting, queue)
			}
			mu.Unlock()
		})
	}
	all.Wait()
	if served+left+refused != callers || served+left != admitted {
		t.Errorf("%d callers, %d admitted: %d served, %d left, %d refused", callers, admitted, served, left, refused)
	}
	if held, waiting, _ := a.load(); held != 0 || waiting != 0 {
		t.Errorf("at the end %d slots are held and %d wait", held, waiting)
	}
}

func delay(r *rand.Rand) time.Duration { return time.Duration(r.IntN(40)) * time.Millisecond }

// TestVerdictOnce: of any number of ends at once, one counts.
func TestVerdictOnce(t *testing.T) {
	for range 200 {
		var v verdict
		var all sync.WaitGroup
		var mu sync.Mutex
		var won []cause
		start := make(chan struct{})
		for _, c := range []cause{causeExit, causeDeadline, causeCanceled, causeOutput, causeLost} {
			all.Go(func() {
				<-start
				if v.claim(c) {
					mu.Lock()
					won = append(won, c)
					mu.Unlock()
				}
			})
		}
		close(start)
		all.Wait()
		if len(won) != 1 || v.of() != won[0] {
			t.Fatalf("claimed by %v, and it says %v", won, v.of())
		}
	}
}
