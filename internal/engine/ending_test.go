package engine_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestEndTogether: whoever removes a sandbox waits until nothing of it is left, also if somebody else removes it; its
// name is then free, and a call that asks for the name meanwhile gets a new sandbox.
func TestEndTogether(t *testing.T) {
	rig := newRig(t, engine.Config{})
	old := rig.make(t, engine.Create{Name: "a"})
	closing, goOn := make(chan struct{}), make(chan struct{})
	var over atomic.Bool
	rig.set(func(f *faults) {
		f.close = func() {
			close(closing)
			<-goOn
			over.Store(true)
		}
	})
	ends := make(chan error, 2)
	removed := func() {
		err := old.Close()
		if !over.Load() {
			t.Error("Close returned before the box was gone")
		}
		ends <- err
	}
	go removed()
	<-closing
	go removed()
	rig.set(func(f *faults) { f.close = nil })
	made := make(chan *engine.Sandbox)
	go func() {
		s, fresh, err := rig.Engine.Create(within(t), engine.Create{Name: "a"})
		if err != nil || !fresh || !over.Load() {
			t.Errorf("the name again: made %v, %v", fresh, err)
		}
		made <- s
	}()
	close(goOn)
	if err := <-ends; err != nil {
		t.Error(err)
	}
	if err := <-ends; err != nil {
		t.Error(err)
	}
	if s := <-made; s == old {
		t.Error("a sandbox that has ended was handed out")
	}
}

// TestEndWhileWaiting: a command that waits for a slot does not wait on once its sandbox is gone.
func TestEndWhileWaiting(t *testing.T) {
	rig := newRig(t, engine.Config{Slots: 1})
	busy, s := rig.make(t, engine.Create{}), rig.make(t, engine.Create{})
	if _, err := busy.Start(within(t), command("sleep", "1000")); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := s.Start(within(t), command("true"))
		result <- err
	}()
	eventually(t, "a command that waits", func() bool { return rig.Stats().Queued == 1 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	refused(t, "a command of a removed sandbox", <-result, sandbox.NotFound, "it was removed")
}

// TestEndWhileRunning: what runs in a sandbox that dies is lost, and canceled only if somebody removed the sandbox.
func TestEndWhileRunning(t *testing.T) {
	rig, _ := contextRig(t)
	for range 5 {
		for _, asks := range []engine.RunRequest{
			command("sh", "-c", "echo up; sleep 1000"), code("python", "print('up')\nwhile True: pass")} {
			for want, end := range map[sandbox.Status]func(*engine.Sandbox) error{
				sandbox.StatusCanceled: (*engine.Sandbox).Close,
				sandbox.StatusLost: func(
					s *engine.Sandbox) error {
					return rig.fake.Signal(s.ID(), syscall.SIGKILL)
				},
			} {
				s := rig.make(t, engine.Create{})
				up := make(chan struct{})
				asks.Request.Output = func(sandbox.Stream, []byte) { close(up) }
				x, err := s.Start(within(t), asks)
				if err != nil {
					t.Fatal(err)
				}
				<-up
				if err := end(s); err != nil {
					t.Error(err)
				}
				if r, err := x.Wait(within(t)); err != nil || r.Status != want {
					t.Errorf("%+v, %v; want %s", r, err, want)
				}
			}
		}
	}
}

// TestDrainWaits: an orderly end waits for runs whose callers wait, and for no background ones, which the next server
// goes on with.
func TestDrainWaits(t *testing.T) {
	rig := newRig(t, engine.Config{})
	s := rig.make(t, engine.Create{})
	forever := script("sleep 1000")
	forever.Background = true
	if _, err := s.Start(within(t), forever); err != nil {
		t.Fatal(err)
	}
	x, err := s.Start(within(t), script("until [ -e go ]; do sleep 0.01; done"))
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan error)
	go func() {
		err := rig.Drain(within(t))
		select {
		case <-x.Done():
		default:
			err = errors.Join(err, errors.New("a run still ran"))
		}
		drained <- err
	}()
	eventually(t, "the refusal of new runs", func() bool { return rig.Stats().Draining })
	if err := s.WriteFile(within(t), "go", 0, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}
