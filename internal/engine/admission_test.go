package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestAdmissionOrder: the longest waiter is served first; one that leaves the queue is skipped.
func TestAdmissionOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 8, time.Hour)
		if err := a.acquire(t.Context(), "", func() {}); err != nil {
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
				if err := a.acquire(mine, "", func() {}); err != nil {
					if i != 2 || !errors.Is(err, context.Canceled) {
						t.Errorf("caller %d: %v", i, err)
					}
					return
				}
				order = append(order, i)
				a.release("", time.Second)
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		a.release("", time.Second)
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

// TestAdmissionBusy: past the limit of the queue, callers are refused at once, with a RetryAfter that grows with the
// load.
func TestAdmissionBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(2, 3, 10*time.Second)
		for range 2 {
			if err := a.acquire(t.Context(), "", func() {}); err != nil {
				t.Fatal(err)
			}
		}
		late := make(chan error, 3)
		for range 3 {
			go func() { late <- a.acquire(t.Context(), "", func() {}) }()
		}
		synctest.Wait()
		err := a.acquire(t.Context(), "", func() { t.Error("a refused caller was admitted") })
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
		a.release("", 40*time.Second)
		a.release("", 40*time.Second)
		for range 2 { // refused ones gave nothing back that they did not hold
			if err := a.acquire(t.Context(), "", func() {}); err != nil {
				t.Fatal(err)
			}
		}
		go func() { _ = a.acquire(t.Context(), "", func() {}) }()
		synctest.Wait()
		if held, waiting, _ := a.load(); held != 2 || waiting != 1 {
			t.Errorf("held %d, waiting %d; want 2 and 1", held, waiting)
		}
		a.release("", time.Second)
	})
}

// TestAdmissionShares: one owner's sleeping runs leave slots and places for others; a refusal says whose share is full.
func TestAdmissionShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(4, 8, time.Hour)
		a.share(2, 4)
		ctx, leave := context.WithCancel(t.Context())
		var refused []error
		for range 20 {
			go func() {
				if err := a.acquire(ctx, "hog", func() {}); sandbox.KindOf(err) == sandbox.Busy {
					refused = append(refused, err)
				}
			}()
			synctest.Wait()
		}
		if held, waiting, _ := a.load(); held != 2 || waiting != 4 || len(refused) != 14 {
			t.Errorf("it holds %d slots and %d places, and was refused %d times; want 2, 4 and 14", held, waiting,
				len(refused))
		}
		if want := `the share of "hog" is full: 2 of 2 slots, 4 of 4 places in the queue`; len(refused) > 0 &&
			refused[0].(*sandbox.Error).Msg != want {
			t.Errorf("it is told %q, want %q", refused[0], want)
		}
		if err := a.acquire(t.Context(), "other", func() {}); err != nil {
			t.Errorf("another is not served: %v", err)
		}
		for range 2 { // the last slot is for who has none
			go func() { _ = a.acquire(ctx, "other", func() {}) }()
		}
		synctest.Wait()
		if held, _, _ := a.load(); held != 3 {
			t.Errorf("two owners hold %d of 4 slots", held)
		}
		if err := a.acquire(t.Context(), "third", func() {}); err != nil {
			t.Errorf("a third is not served: %v", err)
		}
		leave()
		synctest.Wait()
	})
}

// TestAdmissionRound: slots go round among the owners that wait, however many wait for one of them, and past who has
// its share.
func TestAdmissionRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(2, 20, time.Hour)
		a.share(1, 20)
		for _, owner := range []string{"first", "stays"} {
			if err := a.acquire(t.Context(), owner, func() {}); err != nil {
				t.Fatal(err)
			}
		}
		var order []string
		for _, name := range []string{"stays", "a1", "a2", "a3", "b1", "b2", "c1"} {
			go func() {
				owner := strings.TrimRight(name, "123")
				if err := a.acquire(t.Context(), owner, func() {}); err != nil {
					t.Error(err)
				}
				order = append(order, name)
				if owner != "stays" {
					time.Sleep(time.Second)
					a.release(owner, time.Second)
				}
			}()
			synctest.Wait()
		}
		a.release("first", time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := strings.Join(order, " "), "a1 b1 c1 a2 b2 a3"; got != want {
			t.Errorf("served %s, want %s", got, want)
		}
		a.release("stays", time.Second)
		synctest.Wait()
		if held, waiting, _ := a.load(); held != 1 || waiting != 0 {
			t.Errorf("held %d, waiting %d; want 1 and 0", held, waiting)
		}
	})
}

func TestAdmissionDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 1, time.Hour)
		if err := a.acquire(t.Context(), "", func() {}); err != nil {
			t.Fatal(err)
		}
		served := false
		go func() { served = a.acquire(t.Context(), "", func() {}) == nil }()
		synctest.Wait()
		a.drain()
		if err := a.acquire(t.Context(), "", func() {}); sandbox.KindOf(err) != sandbox.Unavailable {
			t.Errorf("while draining: %v, want Unavailable", err)
		}
		a.release("", time.Second)
		synctest.Wait()
		if !served {
			t.Error("a caller that waited when draining began was not served")
		}
	})
}

// TestAdmissionConservation drives random callers, some of which give up, through a small gate under a false clock. No
// moment has more holders than slots or more waiters than the queue, each caller ends in one way, and in the end all
// slots are back.
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
	a.share(r.IntN(slots+1), r.IntN(queue+1))
	var mu sync.Mutex // guards the counts
	var admitted, held, served, left, refused int
	holds := map[string]int{} // by owner
	callers := 20 + r.IntN(60)
	var all sync.WaitGroup
	for range callers {
		arrive, wait, work := delay(r), delay(r)+1, delay(r)
		owner := []string{"a", "a", "a", "b", "c"}[r.IntN(5)]
		all.Go(func() {
			time.Sleep(arrive)
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			in := false
			err := a.acquire(ctx, owner, func() { in = true })
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
				if holds[owner]++; holds[owner] > a.ownerSlots {
					t.Errorf("one owner holds %d slots; its share is %d", holds[owner], a.ownerSlots)
				}
				mu.Unlock()
				time.Sleep(work)
				mu.Lock()
				held--
				holds[owner]--
				served++
				a.release(owner, work)
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
	if held, waiting, _ := a.load(); held != 0 || waiting != 0 || len(a.owners) != 0 || a.line.Len() != 0 {
		t.Errorf("at the end %d slots are held, %d wait, and %d owners are known", held, waiting, len(a.owners))
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

// TestFullFor: the time without a free slot or place ends with the first free one.
func TestFullFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 1, time.Hour)
		take := func() {
			if err := a.acquire(t.Context(), "", func() {}); err != nil {
				t.Error(err)
			}
		}
		take()
		if a.fullFor() != 0 {
			t.Error("there is a place in the queue")
		}
		go take()
		synctest.Wait()
		time.Sleep(time.Minute)
		if a.fullFor() != time.Minute {
			t.Error(a.fullFor())
		}
		a.release("", time.Minute)
		synctest.Wait()
		if a.fullFor() != 0 {
			t.Error("the queue is empty")
		}
		a.release("", 0)
	})
}
