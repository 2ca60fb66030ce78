package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestCrowd: while few processes are left, an owner with too many loses its largest sandboxes, and no more than needed.
func TestCrowd(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []int64 // processes of the sandboxes of two owners
		want []int64 // of those that end
	}{
		{"many are left", []int64{300, 250}, []int64{10}, nil},
		{"one owner has most", []int64{10, 300, 200, 200}, []int64{100, -1}, []int64{300, 200}},
		{"both have many", []int64{370}, []int64{374}, nil},
		{"both have too many", []int64{200, 190}, []int64{380}, []int64{200}},
	} {
		var list []counted
		for owner, all := range map[string][]int64{"a": c.a, "b": c.b} {
			for _, n := range all {
				list = append(list, counted{&Sandbox{life: t.Context()}, owner, n})
			}
		}
		var got []int64
		for _, s := range crowd(list, 1000) {
			got = append(got, s.pids)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v end, want %v", c.name, got, c.want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	closing, next := counted{&Sandbox{life: ended}, "", 500}, counted{&Sandbox{life: t.Context()}, "", 400}
	if got := crowd([]counted{closing, next}, 1000); !slices.Equal(got, []counted{next}) {
		t.Errorf("beside one that waits to be closed, %d end", len(got))
	}
	if next.pids = 300; len(crowd([]counted{closing, next}, 1000)) != 0 {
		t.Error("one that may stay ends beside one that waits to be closed")
	}
	if next.pids = 1000; crowd([]counted{next}, 0) != nil {
		t.Error("a sandbox ended on a host that bounds nothing")
	}
}

// crowdedBox is a box with many processes.
type crowdedBox struct{ yielder }

func (*crowdedBox) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{PidsNow: 900}, nil
}
func (*crowdedBox) Close() error { return nil }

// TestCrowdOfWarm: a warm box in which code of an image has too many processes ends, and that of the operator stays.
func TestCrowdOfWarm(t *testing.T) {
	e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, Warm: 1, Slots: 4, Shares: Shares{OwnerSlots: 2},
		Living: LivingConfig{Processes: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	shelved := func(kept bool) *shelf {
		s := &shelf{backend: noBoxes{}, owner: "a", kept: kept, idle: time.AfterFunc(time.Hour, func() {}),
			spec: sandbox.Spec{Root: sandbox.Root{Image: "web", Start: &sandbox.Start{}}}}
		l := newSandbox(e, noBoxes{}, sandbox.Record{Owner: s.owner, Spec: s.spec})
		l.box = &crowdedBox{}
		e.boxes.Add(1)
		e.pool.shelves[fmt.Sprint(kept)] = s
		e.pool.put(s, l, nil)
		return s
	}
	own, kept := shelved(false), shelved(true)
	e.endCrowd(nil)
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	if len(own.ready) != 0 || len(kept.ready) != 1 {
		t.Errorf("%d of the client and %d of the operator wait", len(own.ready), len(kept.ready))
	}
}

// TestCrowdOfTaken: a warm box of an owner with too many processes that another owner takes meanwhile stays.
func TestCrowdOfTaken(t *testing.T) {
	e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, Slots: 4, Shares: Shares{OwnerSlots: 2},
		Living: LivingConfig{Processes: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := newSandbox(e, noBoxes{}, sandbox.Record{Owner: "a"})
	s.box = &takenBox{taken: func() {
		e.living.crowding.remove(s)
		s.become(sandbox.Record{Owner: "b"})
		e.living.crowding.add(s)
	}}
	e.living.crowding.add(s)
	if e.endCrowd(nil); s.life.Err() != nil || e.living.crowding.refusal("b") != nil {
		t.Error("the sandbox of another owner ended")
	}
	s.box = &crowdedBox{}
	if e.endCrowd(nil); s.life.Err() == nil || e.living.crowding.refusal("b") == nil {
		t.Error("the sandbox stays")
	}
}

// takenBox is a crowdedBox that is taken while its processes are counted.
type takenBox struct {
	crowdedBox
	taken func()
}

func (b *takenBox) Usage(ctx context.Context) (sandbox.Usage, error) {
	b.taken()
	return b.crowdedBox.Usage(ctx)
}
