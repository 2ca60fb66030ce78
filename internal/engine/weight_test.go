package engine

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// yielder is a box whose CPU time the test decides.
type yielder struct {
	sandbox.Box
	cpu  time.Duration
	part int
}

func (y *yielder) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{CPU: y.cpu}, nil
}

func (y *yielder) Yield(part int) error {
	y.part = part
	return nil
}

// TestWeights: the sandboxes of an owner that work without a slot have the weight of one together. One that has a slot,
// does nothing, or belongs to another owner, has its usual weight.
func TestWeights(t *testing.T) {
	e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}})
	if err != nil {
		t.Fatal(err)
	}
	var list []*Sandbox
	var boxes []*yielder
	for _, owner := range []string{"a", "a", "a", "a", "a", "b"} {
		s := newSandbox(e, noBoxes{}, sandbox.Record{ID: sandbox.NewID(), Owner: owner})
		box := &yielder{}
		s.box = box
		list, boxes = append(list, s), append(boxes, box)
	}
	const idle, runs = 3, 4
	now := time.Now()
	round := func(work time.Duration) []int {
		now = now.Add(weighEvery)
		var parts []int
		for i, box := range boxes {
			if i != idle {
				box.cpu += work
			}
		}
		weighAll(list, now)
		for _, box := range boxes {
			parts = append(parts, box.part)
		}
		return parts
	}
	round(0)
	drop := list[runs].holdWeight()
	list[runs].weight.since = now
	if got, want := round(weighEvery/2), []int{3, 3, 3, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("parts are %v, want %v", got, want)
	}
	inRun := list[0].holdWeight()
	if boxes[0].part != 1 {
		t.Errorf("a run with a slot has 1/%d of the weight", boxes[0].part)
	}
	inRun()
	if boxes[0].part != 3 {
		t.Errorf("after a run with a slot, the part is %d", boxes[0].part)
	}
	drop()
	now = now.Add(weighFor)
	if got, want := round(0), []int{1, 1, 1, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("later, parts are %v, want %v", got, want)
	}
}

// undialed is a yielder whose guest does not answer. It records its part when it is dialed.
type undialed struct {
	yielder
	parts  []int
	dialed func()
}

func (u *undialed) Dial(context.Context) (net.Conn, error) {
	u.parts = append(u.parts, u.part)
	u.dialed()
	return nil, errors.New("no guest")
}

// TestRestartWeight: the restart of an interpreter, which may execute code of the sandbox, holds no slot, so it does not
// change the weight.
func TestRestartWeight(t *testing.T) {
	e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSandbox(e, noBoxes{}, sandbox.Record{ID: sandbox.NewID()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	box := &undialed{dialed: cancel}
	s.box, s.weight.part = box, 3
	s.weight.mu.Lock()
	s.weigh()
	s.weight.mu.Unlock()
	if err := s.newContext("a", lang.All()[0], "").Restart(ctx); err == nil {
		t.Error("an interpreter started without a guest")
	}
	if len(box.parts) == 0 || slices.ContainsFunc(box.parts, func(part int) bool { return part != 3 }) {
		t.Errorf("the parts of the weight are %v", box.parts)
	}
}
