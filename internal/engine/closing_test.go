package engine

import (
	"context"
	"os"
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

// unreachable is out of reach for some attempts, as a container engine that restarts.
type unreachable struct {
	noBoxes
	fails int // further failures
	takes time.Duration
	ended atomic.Bool
}

func (u *unreachable) reach() error {
	time.Sleep(u.takes)
	if u.fails--; u.fails >= 0 {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "reach the engine"}
	}
	return nil
}

func (u *unreachable) Reattach(context.Context, sandbox.ID) (sandbox.Box, error) {
	return distant{from: u}, u.reach()
}

type distant struct {
	sandbox.Box
	from *unreachable
}

func (d distant) Close() error {
	err := d.from.reach()
	d.from.ended.Store(err == nil)
	return err
}

// TestCloseLater: a box out of reach is ended later, by the same server or the next. The folder of logs, by which that
// finds it, stays until then.
func TestCloseLater(t *testing.T) {
	for name, end := range map[string]func(*Engine, *Sandbox, *unreachable){
		"not closed": func(_ *Engine, s *Sandbox, u *unreachable) {
			s.box = distant{from: u}
			s.closeBox()
			_ = s.removeLogs()
		},
		"not closed, of one run": func(_ *Engine, s *Sandbox, u *unreachable) {
			s.box, s.logs = distant{from: u}, nil
			s.closeBox()
		},
		"not taken over": func(_ *Engine, s *Sandbox, _ *unreachable) {
			(&takeover{sandbox: s}).findBox()
			_ = s.removeLogs()
		},
		"of an earlier server": func(e *Engine, _ *Sandbox, _ *unreachable) { e.sweep(context.Background(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &unreachable{fails: 3}
				e, err := New(Config{Backends: []sandbox.Backend{u}, Living: LivingConfig{StateDir: t.TempDir()}})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				s := newSandbox(e, u, sandbox.Record{ID: sandbox.NewID(), Owner: "a"})
				if s.logs, _, err = s.openLogs(); err != nil {
					t.Fatal(err)
				}
				logs := s.logs.Dir()
				end(e, s, u)
				if _, err := os.Stat(logs); err != nil || u.ended.Load() {
					t.Errorf("before: %v, ended %t", err, u.ended.Load())
				}
				time.Sleep(mostRetry)
				synctest.Wait()
				if _, err := os.Stat(logs); !u.ended.Load() || err == nil && s.logs != nil {
					t.Errorf("afterwards: %v, ended %t", err, u.ended.Load())
				}
			})
		})
	}
}

// TestCloseAwaitsClosing: an engine that is closed waits for a box that is being closed later.
func TestCloseAwaitsClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unreachable{fails: 1, takes: time.Second}
		e, err := New(Config{Backends: []sandbox.Backend{u}, Living: LivingConfig{StateDir: t.TempDir()}})
		if err != nil {
			t.Fatal(err)
		}
		s := newSandbox(e, u, sandbox.Record{ID: sandbox.NewID(), Owner: "a"})
		s.box = distant{from: u}
		s.closeBox()
		time.Sleep(leastRetry)
		synctest.Wait()
		if err := e.Close(); err != nil || !u.ended.Load() {
			t.Errorf("%v, ended %t", err, u.ended.Load())
		}
	})
}
