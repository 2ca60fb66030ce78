package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// noBoxes is a backend that makes none: for tests of what would be kept warm.
type noBoxes struct{ sandbox.Backend }

func (noBoxes) Name() string { return "none" }
func (noBoxes) Create(context.Context, sandbox.Spec) (sandbox.Box, error) {
	return nil, &sandbox.Error{Kind: sandbox.Unavailable, Msg: "there are no boxes"}
}

// TestShelves: an owner's odd specs take shelves from who has more, and never from who has fewer.
func TestShelves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, Warm: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		ask := func(owner string, memory ...int64) {
			for _, m := range memory {
				e.pool.take(noBoxes{}, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: m}}, owner, supplied{}, nil)
				time.Sleep(time.Millisecond) // so that one is the oldest
			}
		}
		expect := func(when, owner string, memory ...int64) {
			t.Helper()
			e.pool.mu.Lock()
			defer e.pool.mu.Unlock()
			has := map[int64]bool{}
			for _, s := range e.pool.shelves {
				if s.owner == owner {
					has[s.spec.Limits.MemoryBytes] = true
				}
			}
			for _, m := range memory {
				if !has[m] {
					t.Errorf("%s: %q has no shelf for %d, but %v", when, owner, m, has)
				}
			}
			if len(has) != len(memory) || len(e.pool.shelves) > maxShelves {
				t.Errorf("%s: %q has %v of %d, want %v", when, owner, has, len(e.pool.shelves), memory)
			}
		}
		ask("odd", 1, 2, 3, 4, 5, 6, 7, 8, 9)
		expect("alone", "odd", 1, 2, 3, 4, 5, 6, 7, 8)
		ask("odd", 1)
		ask("usual", 11, 12, 13, 14, 15)
		expect("beside another", "usual", 11, 12, 13, 14)
		expect("beside another", "odd", 6, 7, 8, 1)
		for range 3 {
			time.Sleep(shelfRest)
			ask("usual", 11, 12, 13, 14)
			ask("odd", 21, 22, 23, 24, 25)
		}
		expect("in the end", "usual", 11, 12, 13, 14)
		expect("in the end", "odd", 21, 22, 23, 24)
	})
}

// TestKeptShelves: the specs of other owners take no shelf of KeepWarm, except one of an image that has changed.
func TestKeptShelves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, Warm: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		others := func() {
			for i := range 2 * maxShelves {
				time.Sleep(time.Millisecond)
				limits := sandbox.Limits{MemoryBytes: int64(i)}
				e.pool.take(noBoxes{}, sandbox.Spec{Limits: limits}, fmt.Sprint("other ", i), supplied{}, nil)
			}
		}
		kept := func() (digests []string) {
			e.pool.mu.Lock()
			defer e.pool.mu.Unlock()
			for _, s := range e.pool.shelves {
				if s.spec.Root.Image != "" {
					digests = append(digests, s.spec.Root.Digest)
				}
			}
			return digests
		}
		for _, digest := range []string{"first", "second"} {
			others()
			time.Sleep(shelfRest)
			e.pool.warm(noBoxes{}, sandbox.Spec{Root: sandbox.Root{Image: "web", Digest: digest}})
			time.Sleep(shelfRest)
			others()
			if list := kept(); len(list) != 1 || list[0] != digest {
				t.Errorf("kept %q, want the %s", list, digest)
			}
		}
	})
}

// busyBox is a box whose code computes.
type busyBox struct {
	sandbox.Box
	began time.Time
}

func (b busyBox) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{CPU: time.Since(b.began) / 2}, nil
}
func (busyBox) Close() error { return nil }

// TestParkedWatch: a warm box ends in which the interpreter of an image computes before its program, and nothing waits
// in further boxes of its shelf. A box that a run has taken is not watched.
func TestParkedWatch(t *testing.T) {
	for name, taken := range map[string]bool{"waits": false, "taken": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, Warm: 1})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				s := &shelf{backend: noBoxes{}, spec: sandbox.Spec{Root: sandbox.Root{Image: "web"}}}
				s.idle = time.AfterFunc(time.Hour, func() {})
				defer s.idle.Stop()
				l := newSandbox(e, noBoxes{}, sandbox.Record{Spec: s.spec})
				l.box, l.parked = busyBox{began: time.Now()}, &sandbox.Fork{}
				e.boxes.Add(1)
				e.pool.put(s, l, nil)
				if !e.pool.holds(s, l) {
					t.Fatal("the box is not ready")
				}
				if taken {
					time.Sleep(parkedLook / 2)
					e.pool.mu.Lock()
					s.ready = nil
					e.pool.mu.Unlock()
				}
				time.Sleep(2 * parkedLook)
				synctest.Wait()
				if ended := e.boxes.Load() == 0; ended == taken || s.unparked == taken || e.pool.holds(s, l) {
					t.Errorf("ended: %v, unparked: %v", ended, s.unparked)
				}
				if taken {
					l.closeBox()
				}
			})
		})
	}
}

// TestStartWatch: warm boxes whose start commands compute end, and an owner whose boxes did gets none for a while.
// Those of other owners, and those that the operator keeps warm, remain.
func TestStartWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, Warm: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		shelved := func(owner string, kept bool, box sandbox.Box) *shelf {
			s := &shelf{backend: noBoxes{}, owner: owner, kept: kept,
				spec: sandbox.Spec{Root: sandbox.Root{Image: "web", Start: &sandbox.Start{}}}}
			s.idle = time.AfterFunc(time.Hour, func() {})
			l := newSandbox(e, noBoxes{}, sandbox.Record{Spec: s.spec})
			l.box = box
			e.boxes.Add(1)
			e.pool.shelves[fmt.Sprint(len(e.pool.shelves))] = s
			e.pool.put(s, l, nil)
			return s
		}
		now := time.Now()
		busy, twin := shelved("a", false, busyBox{began: now}), shelved("a", false, busyBox{began: now.Add(time.Hour)})
		kept, other := shelved("", true, busyBox{began: now}), shelved("b", false, busyBox{began: now.Add(time.Hour)})
		full := func(s *shelf) bool {
			e.pool.mu.Lock()
			defer e.pool.mu.Unlock()
			return len(s.ready) > 0
		}
		time.Sleep(4*maxWaitingCPU - 2*parkedLook) // it takes half a CPU, of which a quarter comes back
		synctest.Wait()
		if !full(busy) {
			t.Error("it ended early")
		}
		time.Sleep(4 * parkedLook)
		synctest.Wait()
		if full(busy) || full(twin) || !full(kept) || !full(other) {
			t.Errorf("busy %v, of the same owner %v, kept %v, other %v", full(busy), full(twin), full(kept),
				full(other))
		}
		e.pool.mu.Lock()
		e.pool.spend("a", parkedLook)
		e.pool.mu.Unlock()
		for _, wants := range []bool{false, true} {
			if e.pool.wants(busy) != wants {
				t.Errorf("it may have others: %v", !wants)
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestSharedStart: an owner that has used its CPU time of start commands leaves a shelf to another that uses it.
func TestSharedStart(t *testing.T) {
	e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, Warm: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	spec := sandbox.Spec{Root: sandbox.Root{Image: "web", Start: &sandbox.Start{}}}
	owner := func(by string) string {
		e.pool.mu.Lock()
		defer e.pool.mu.Unlock()
		return e.pool.shelf(noBoxes{}, spec, by, supplied{}).owner
	}
	if got := []string{owner("a"), owner("b")}; got[1] != "a" {
		t.Error(got)
	}
	e.pool.mu.Lock()
	e.pool.spend("a", time.Hour)
	e.pool.mu.Unlock()
	if got := []string{owner("a"), owner("b"), owner("a")}; got[0] != "a" || got[1] != "b" || got[2] != "b" {
		t.Error(got)
	}
}

// linkedBoxes makes boxes with a network, and ownerGate notes whose it is.
type (
	linkedBoxes struct{ noBoxes }
	linkedBox   struct{ sandbox.Box }
	ownerGate   struct {
		openGate
		owner *string
	}
)

func (linkedBoxes) Create(context.Context, sandbox.Spec) (sandbox.Box, error) {
	return linkedBox{}, nil
}
func (linkedBox) Link(context.Context) (io.ReadWriteCloser, error) { return nil, nil }
func (linkedBox) Close() error                                     { return nil }

func (g ownerGate) Open(_ io.ReadWriteCloser, _ sandbox.Spec, owner string, _ func(any)) (sandbox.Passage, error) {
	*g.owner = owner
	return nil, errors.New("it opens none")
}

// TestWarmNetwork: connections of a warm box are of the owner who had it made.
func TestWarmNetwork(t *testing.T) {
	var owner string
	e, err := New(Config{Backends: []sandbox.Backend{linkedBoxes{}}, Warm: 1, Gate: ownerGate{owner: &owner}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := &shelf{backend: linkedBoxes{}, owner: "a"}
	s.spec.Network.Mode = sandbox.NetworkFull
	if _, err := e.pool.make(s); err == nil || owner != "a" {
		t.Errorf("they are of %q: %v", owner, err)
	}
}
