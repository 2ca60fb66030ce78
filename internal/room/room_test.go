package room

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// TestRoom: all owners together hold at most the size, one at most its share, and what is given back is free for those
// who wait.
func TestRoom(t *testing.T) {
	r := New(10, 6)
	if !r.Take("a", 6) || r.Take("a", 1) || !r.Take("b", 4) || r.Take("c", 1) {
		t.Error("a size or a share was exceeded, or refused")
	}
	got := make(chan bool)
	go func() { got <- r.Wait(context.Background(), "b", 2, time.Minute) }()
	r.Give("a", 2)
	if !<-got || r.Held() != 10 || r.HeldBy("b") != 6 {
		t.Errorf("%d are held, %d by b", r.Held(), r.HeldBy("b"))
	}
	r.Move("a", "b", 4)
	if r.HeldBy("a") != 0 || r.HeldBy("b") != 10 || r.Held() != 10 {
		t.Errorf("after a move b holds %d", r.HeldBy("b"))
	}
	if r.Wait(context.Background(), "c", 1, time.Millisecond) {
		t.Error("more than the size")
	}
	r.Give("b", 10)
	r.Keep(2, 1)
	if !r.Take("a", 6) || r.Take("b", 3) || !r.Take("b", 2) || !r.Take("c", 1) || r.Take("c", 1) || !r.Take("d", 1) {
		t.Error("the kept part was not for owners with little")
	}
	for owner, n := range map[string]int64{"a": 6, "b": 2, "c": 1, "d": 1} {
		r.Give(owner, n)
	}
	if r.Held() != 0 || len(r.owners) != 0 {
		t.Errorf("%d are left of %v", r.Held(), r.owners)
	}
}

// TestSurplus: the oldest of the owner with the most goes.
func TestSurplus(t *testing.T) {
	for owners, want := range map[string]int{"a": 0, "aab": 0, "abb": 1, "ab": 0, "bcacb": 0, "aabcbb": 2} {
		if got := Surplus(len(owners), func(i int) string { return owners[i : i+1] }); got != want {
			t.Errorf("%s: %d, want %d", owners, got, want)
		}
	}
}

// TestHalves: two owners with all that they may have do not lock out a third.
func TestHalves(t *testing.T) {
	r := Halves(160)
	if r.Take("a", 81) || !r.Take("a", 80) || !r.Take("b", 60) || r.Take("b", 1) {
		t.Error("a half or the kept part was exceeded, or refused")
	}
	if r.Take("c", 11) || !r.Take("c", 10) || !r.Take("d", 10) || r.Take("e", 1) {
		t.Error("the kept part is not for those with little")
	}
}

// TestWaitInOrder: the oldest of those who find room gets it, and only who gets something is woken.
func TestWaitInOrder(t *testing.T) {
	r := New(10, 10)
	r.Take("x", 10)
	got := make(chan string, 3)
	for i, w := range []waiter{{owner: "large", n: 9}, {owner: "first", n: 4}, {owner: "second", n: 4}} {
		go func() {
			if r.Wait(t.Context(), w.owner, w.n, time.Minute) {
				got <- w.owner
			}
		}()
		for waiting := 0; waiting <= i; runtime.Gosched() {
			r.mu.Lock()
			waiting = r.waiting.Len()
			r.mu.Unlock()
		}
	}
	for _, want := range []string{"first", "second"} {
		r.Give("x", 4)
		if owner := <-got; owner != want {
			t.Errorf("%s gets what %s waits for", owner, want)
		}
	}
	r.Give("first", 4)
	r.Give("second", 4)
	if r.waiting.Len() != 1 {
		t.Errorf("%d wait", r.waiting.Len())
	}
	r.Give("x", 2)
	if owner := <-got; owner != "large" {
		t.Errorf("%s gets the last part", owner)
	}
}
