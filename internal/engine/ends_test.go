package engine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestEndIsOnRecordFirst: when a call reports that a sandbox has ended, its end is on record, and nothing takes it off.
// The next server closes the box if the first one was killed before.
func TestEndIsOnRecordFirst(t *testing.T) {
	k, open := keeping(t)
	k.slow = 20 * time.Millisecond
	stateDir, killed := t.TempDir(), t.TempDir()
	first := open(stateDir)
	var all []*engine.Sandbox
	for range 2 {
		s, _, err := first.Create(within(t), engine.Create{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	s, left := all[0], all[1].ID()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	eventually(t, "the end", func() bool {
		if s.Ended() == nil {
			return false
		}
		if k.record(s.ID()).Ended.IsZero() {
			t.Error("the end is reported, and is not on record")
		}
		return true
	})
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := s.Update(engine.Patch{Metadata: map[string]string{"a": "b"}}); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("a change after the end: %v", err)
	}
	if r := k.record(s.ID()); r.Ended.IsZero() || r.Reason != "it was removed" {
		t.Errorf("the record is %+v", r)
	}

	if err := errors.Join(os.CopyFS(killed, os.DirFS(stateDir)), first.Close()); err != nil {
		t.Fatal(err)
	}
	second := open(killed)
	record := k.record(left)
	record.Ended, record.Reason = time.Now(), "it was removed"
	second.Resume(within(t), []sandbox.Record{record})
	if _, err := k.boxes[left].Wait(within(t)); err != nil {
		t.Errorf("the box of a sandbox whose end is on record lives: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// TestStopWhileServerStops: the answer to a cancellation reports that the server left the run to the next one.
func TestStopWhileServerStops(t *testing.T) {
	k, open := keeping(t)
	stateDir := t.TempDir()
	first, s := openOne(t, open, stateDir)
	deaf := code("python", "import time\nopen('began', 'w').close()\nwhile True:\n  try: time.sleep(0.01)\n"+
		"  except KeyboardInterrupt: pass")
	deaf.Background, deaf.Request.Timeout = true, time.Minute
	x, err := s.Start(within(t), deaf)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the beginning of the code", func() bool { _, err := s.Stat(within(t), "began"); return err == nil })
	stopped := make(chan error, 1)
	go func() { stopped <- x.Stop(within(t)) }()
	time.Sleep(20 * time.Millisecond) // so that usually the code is interrupted before; it has two seconds
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := <-stopped; sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("a run that the server left is reported as canceled: %v", err)
	}
	second := open(stateDir)
	s = k.resumed(t, second, s.ID())
	if x, err = s.FindRun(x.ID()); err != nil {
		t.Fatal(err)
	}
	if i := x.Info(); i.Status != sandbox.StatusRunning {
		t.Errorf("the next server has it as %+v", i)
	}
	if err := errors.Join(s.Close(), second.Close()); err != nil {
		t.Error(err)
	}
}

// TestAnsweredCommandKeepsItsStatus: the next server reports how the process of a caller's command ended, if the server
// was killed, or could not write, after the process had ended. The caller may have the answer.
func TestAnsweredCommandKeepsItsStatus(t *testing.T) {
	k, open := keeping(t)
	connections := &cutting{Backend: k.Backend, left: -1}
	k.Backend = connections
	stateDir, killed := t.TempDir(), t.TempDir()
	first, s := openOne(t, open, stateDir)
	request := script("trap 'exit 3' TERM; touch began; while :; do sleep 0.01; done")
	request.Request.Timeout = time.Minute
	x, err := s.Start(within(t), request)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the beginning", func() bool { _, err := s.Stat(within(t), "began"); return err == nil })
	if err := os.CopyFS(killed, os.DirFS(stateDir)); err != nil {
		t.Fatal(err)
	}
	connections.arm(1, false)
	stat, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	_, _ = s.Stat(stat, "began") // cuts the server off
	cancel()
	record, box := k.record(s.ID()), k.boxes[s.ID()].(*cuttingBox).Box
	endProcess(t, box, string(x.ID()))

	next, open := keeping(t)
	next.boxes[s.ID()] = box
	second := open(killed)
	second.Resume(within(t), []sandbox.Record{record})
	if s, err = second.Sandbox(within(t), "", string(s.ID())); err != nil {
		t.Fatal(err)
	}
	if x, err = s.FindRun(x.ID()); err != nil {
		t.Fatal(err)
	}
	if r, err := x.Wait(within(t)); err != nil || r.Status != sandbox.StatusFailed || r.ExitCode != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := errors.Join(s.Close(), second.Close(), first.Close()); err != nil {
		t.Error(err)
	}
}

// endProcess ends a process by SIGTERM, and waits until its guest reports its end.
func endProcess(t *testing.T, box sandbox.Box, id string) {
	t.Helper()
	conn, err := box.Dial(within(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(within(t), conn, box.GuestKey())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Signal(within(t), guest.Signal{ID: id, Signal: int32(syscall.SIGTERM),
		Scope: guest.ScopeGroup}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the process", func() bool {
		list, err := c.List(within(t))
		return err == nil && slices.ContainsFunc(list, func(p guest.ProcessInfo) bool { return p.ID == id && p.Exited })
	})
}

// silent is a keeper whose guests do not answer while it is set.
type silent struct {
	*keeper
	set atomic.Bool
}

type silentBox struct {
	sandbox.Box
	of *silent
}

func (k *silent) Reattach(ctx context.Context, id sandbox.ID) (sandbox.Box, error) {
	box, err := k.keeper.Reattach(ctx, id)
	return &silentBox{box, k}, err
}

func (b *silentBox) Dial(ctx context.Context) (net.Conn, error) {
	if b.of.set.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.Box.Dial(ctx)
}

// TestResumeWaitsBriefly: guests that do not answer keep nobody waiting for the next server. Their sandboxes are
// unavailable until they answer.
func TestResumeWaitsBriefly(t *testing.T) {
	k, open := keeping(t)
	stateDir := t.TempDir()
	first, s := openOne(t, open, stateDir)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	b := &silent{keeper: k}
	b.set.Store(true)
	second, err := engine.New(engine.Config{Backends: []sandbox.Backend{b}, Languages: lang.All(),
		Living: engine.LivingConfig{StateDir: stateDir, Store: k, ResumeWait: 10 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	brief, cancel := context.WithTimeout(t.Context(), 5*time.Second) // an attempt takes longer
	defer cancel()
	second.Resume(brief, []sandbox.Record{k.record(s.ID())})
	if brief.Err() != nil {
		t.Error("the server waits for a guest that does not answer")
	}
	if _, err := second.Sandbox(within(t), "", string(s.ID())); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("the sandbox whose guest does not answer: %v", err)
	}
	b.set.Store(false)
	id := string(s.ID())
	eventually(t, "the takeover", func() bool { s, err = second.Sandbox(within(t), "", id); return err == nil })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// slowTakeover is an observer that holds up a takeover until it may go on.
type slowTakeover struct{ goOn chan struct{} }

func (s slowTakeover) Observe(o engine.Observation) {
	if o.Kind == engine.SandboxResumed {
		<-s.goOn
	}
}

// TestResumeWaitsBrieflyForAnswers: nor do guests that answer, and take long for the many calls of a takeover.
func TestResumeWaitsBrieflyForAnswers(t *testing.T) {
	for _, removed := range []bool{false, true} {
		k, open := keeping(t)
		stateDir := t.TempDir()
		first, s := openOne(t, open, stateDir)
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		slow := slowTakeover{make(chan struct{})}
		second, err := engine.New(engine.Config{Backends: []sandbox.Backend{k}, Languages: lang.All(), Observer: slow,
			Living: engine.LivingConfig{StateDir: stateDir, Store: k, ResumeWait: 10 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		id := string(s.ID())
		second.Resume(within(t), []sandbox.Record{k.record(s.ID())})
		if _, err := second.Sandbox(within(t), "", id); sandbox.KindOf(err) != sandbox.Unavailable {
			t.Errorf("the sandbox that is being taken over: %v", err)
		}
		gone := make(chan error, 1)
		if removed {
			go func() { gone <- second.Remove("", id) }()
		}
		close(slow.goOn)
		if !removed {
			eventually(t, "the takeover", func() bool { s, err = second.Sandbox(within(t), "", id); return err == nil })
			gone <- s.Close()
		}
		if err := errors.Join(<-gone, second.Close()); err != nil {
			t.Error(err)
		}
		if k.record(s.ID()).Ended.IsZero() {
			t.Error("its end is not on record")
		}
	}
}

// TestWatchIsNoUse: a sandbox whose folder is watched may be idle.
func TestWatchIsNoUse(t *testing.T) {
	rig := newRig(t, engine.Config{})
	s := rig.make(t, engine.Create{})
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	err := s.Watch(ctx, ".", false, func() {
		if s.Info().IdleEnds.IsZero() {
			t.Error("a watch counts as use")
		}
		stop()
	}, func(engine.Change) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// lateStore is a store whose saves of changed metadata take until a time.
type lateStore struct {
	*keeper
	until time.Time
}

func (l *lateStore) Save(r sandbox.Record) (int, error) {
	if r.Spec.Metadata != nil {
		time.Sleep(time.Until(l.until))
	}
	return l.keeper.Save(r)
}

// TestPutOff: a sandbox does not end while a call uses it, nor at the end time that a call in progress changes: its
// answer reports the new one.
func TestPutOff(t *testing.T) {
	k, _ := keeping(t)
	idle, at := time.Second, time.Now().Add(3*time.Second)
	e, err := engine.New(engine.Config{Backends: []sandbox.Backend{k}, Languages: lang.All(),
		Living: engine.LivingConfig{StateDir: t.TempDir(), Store: &lateStore{k, at.Add(50 * time.Millisecond)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, _, err := e.Create(within(t), engine.Create{Ends: engine.Ends{Idle: &idle, At: at}})
	if err != nil {
		t.Fatal(err)
	}
	upload, sender := io.Pipe()
	time.AfterFunc(idle+100*time.Millisecond, func() { sender.Close() })
	if err := s.WriteFile(within(t), "slow", 0, upload); err != nil {
		t.Error(err)
	}
	patch := engine.Patch{Metadata: map[string]string{"a": "b"}, Ends: engine.Ends{In: time.Hour}}
	if err := s.Update(patch); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // for an end that must not come
	if err := errors.Join(s.Ended(), s.Close()); err != nil {
		t.Error(err)
	}
}
