package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	time.Sleep(time.Second)
	return nil
}

// TestCloseInTurn: of one owner, as many boxes close at a time as it has slots. They do not wait for sandboxes that it
// makes meanwhile.
func TestCloseInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}, Slots: 4, Shares: Shares{OwnerSlots: 2}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for range 2 {
			if err := e.living.making.acquire(t.Context(), "a", func() {}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		var closing, most atomic.Int32
		for range 12 {
			s := newSandbox(e, noBoxes{}, sandbox.Record{ID: sandbox.NewID(), Owner: "a"})
			s.box = closable{closing: &closing, most: &most}
			e.boxes.Add(1)
			e.endings.Go(s.closeInTurn)
		}
		e.endings.Wait()
		if took := time.Since(began); most.Load() != 2 || took != 6*time.Second {
			t.Errorf("%d boxes closed at once, all in %v", most.Load(), took)
		}
	})
}
