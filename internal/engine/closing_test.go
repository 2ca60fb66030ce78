package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// closable is a box that takes a while to close.
type closable struct {
	sandbox.Box
	closing, most *atomic.Int32
}

func (c closable) Close() error {
	n := c.closing.Add(1)
	defer c.closing.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	time.Sleep(5 * time.Millisecond)
	return nil
}

// TestCloseInTurn: of one owner, as many boxes close at a time as it has slots.
func TestCloseInTurn(t *testing.T) {
	e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, Slots: 4, Shares: Shares{OwnerSlots: 2}})
	if err != nil {
		t.Fatal(err)
	}
	var closing, most atomic.Int32
	for range 12 {
		s := newSandbox(e, noBoxes{}, sandbox.Record{ID: sandbox.NewID(), Owner: "a"})
		s.box = closable{closing: &closing, most: &most}
		e.boxes.Add(1)
		e.endings.Go(s.closeInTurn)
	}
	e.endings.Wait()
	if most.Load() != 2 {
		t.Errorf("%d boxes closed at once", most.Load())
	}
}
