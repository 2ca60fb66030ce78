package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// keeper is a backend and a store of two engines, the second of which takes over what the first leaves.
type keeper struct {
	sandbox.Backend
	mu      sync.Mutex
	boxes   map[sandbox.ID]sandbox.Box
	records map[sandbox.ID]sandbox.Record
	slow    time.Duration // that a save takes
}

func (k *keeper) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	box, err := k.Backend.Create(ctx, spec)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.boxes[spec.ID] = box
	return box, err
}

func (k *keeper) Reattach(_ context.Context, id sandbox.ID) (sandbox.Box, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.boxes[id], nil
}

func (k *keeper) Save(r sandbox.Record) (int, error) {
	time.Sleep(k.slow)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records[r.ID] = r
	return 0, nil
}

// record returns what the next server would read now.
func (k *keeper) record(id sandbox.ID) sandbox.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.records[id]
}

func (k *keeper) Remove(sandbox.ID) error { return nil }

// resumed has an engine take over a sandbox, and returns the sandbox.
func (k *keeper) resumed(t *testing.T, e *engine.Engine, id sandbox.ID) *engine.Sandbox {
	t.Helper()
	e.Resume(within(t), []sandbox.Record{k.record(id)})
	s, err := e.Sandbox(within(t), "", string(id))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keeping returns a keeper, and a function that opens an engine over it with the state in a folder.
func keeping(t *testing.T) (*keeper, func(stateDir string) *engine.Engine) {
	k := &keeper{Backend: backendtest.NewFake(t), boxes: map[sandbox.ID]sandbox.Box{},
		records: map[sandbox.ID]sandbox.Record{}}
	return k, func(stateDir string) *engine.Engine {
		e, err := engine.New(engine.Config{
			Backends: []sandbox.Backend{k}, Languages: lang.All(),
			Living: engine.LivingConfig{StateDir: stateDir, Store: k}})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// openOne opens an engine by the function of keeping, and makes a sandbox in it.
func openOne(t *testing.T, open func(string) *engine.Engine, stateDir string) (*engine.Engine, *engine.Sandbox) {
	t.Helper()
	e := open(stateDir)
	s, _, err := e.Create(within(t), engine.Create{})
	if err != nil {
		t.Fatal(err)
	}
	return e, s
}

// TestResumeAfterKill: code that runs when the server is killed goes on, though it has shown nothing yet and nobody
// follows it, and though the next server permits only shorter runs. That server reads a copy of the state at the moment
// of the kill.
func TestResumeAfterKill(t *testing.T) {
	k, open := keeping(t)
	stateDir, killed := t.TempDir(), t.TempDir()
	first, s := openOne(t, open, stateDir)
	asks := code("python", "import os, time\nopen('began', 'w').close()\nwhile not os.path.exists('end'): time.sleep(0.01)\nprint('end')")
	asks.Background, asks.Request.Timeout = true, time.Minute
	x, err := s.Start(within(t), asks)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the beginning of the code", func() bool { _, err := s.Stat(within(t), "began"); return err == nil })
	if err := os.CopyFS(killed, os.DirFS(stateDir)); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open(killed)
	defer second.Close()
	short := sandbox.Limits{Timeout: time.Second}
	if err := second.SetLimits(engine.Config{Defaults: short, Max: short}); err != nil {
		t.Fatal(err)
	}
	if gone := second.Resume(within(t), []sandbox.Record{k.records[s.ID()]}); len(gone) != 0 {
		t.Fatalf("gone: %+v", gone)
	}
	if s, err = second.Sandbox(within(t), "", string(s.ID())); err != nil {
		t.Fatal(err)
	}
	if x, err = s.FindRun(x.ID()); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteFile(within(t), "end", 0, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	output := ""
	err = x.Follow(within(t), 0, func(e engine.Event) error { output += string(e.Data); return nil })
	if r, failed := x.Wait(within(t)); err != nil || failed != nil || r.Status != sandbox.StatusSucceeded ||
		output != "end\n" {
		t.Errorf("it wrote %q, %v; %+v, %v", output, err, r, failed)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestOrderAfterKill: background runs that wait for their context when the server is killed run and are listed in the
// order in which they were accepted.
func TestOrderAfterKill(t *testing.T) {
	k, open := keeping(t)
	stateDir, killed := t.TempDir(), t.TempDir()
	first, s := openOne(t, open, stateDir)
	var accepted []sandbox.ID
	begin := func(text string) {
		asks := code("python", text)
		asks.Background, asks.Request.Timeout = true, time.Minute
		x, err := s.Start(within(t), asks)
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, x.ID())
	}
	begin("import os, time\nall = []\nwhile not os.path.exists('end'): time.sleep(0.01)")
	want := ""
	for i := range 20 {
		begin(fmt.Sprintf("all.append(%d)", i))
		want += fmt.Sprintln(i)
	}
	if err := errors.Join(os.CopyFS(killed, os.DirFS(stateDir)), first.Close()); err != nil {
		t.Fatal(err)
	}
	second := open(killed)
	defer second.Close()
	second.Resume(within(t), []sandbox.Record{k.records[s.ID()]})
	var err error
	if s, err = second.Sandbox(within(t), "", string(s.ID())); err != nil {
		t.Fatal(err)
	}
	var listed []sandbox.ID
	for _, x := range s.Runs() {
		listed = append(listed, x.ID)
	}
	if !slices.Equal(listed, accepted) {
		t.Errorf("accepted %v, listed %v", accepted, listed)
	}
	if err := s.WriteFile(within(t), "end", 0, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	// It waits for the others.
	if r := do(t, s, code("python", "print(*all, sep='\\n')")); string(r.Stdout.Head) != want {
		t.Errorf("they ran in the order %q", r.Stdout.Head)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAcceptedWhileDraining: a background run that gets its turn from a server that is stopping is started by the next.
func TestAcceptedWhileDraining(t *testing.T) {
	k, open := keeping(t)
	stateDir := t.TempDir()
	first, s := openOne(t, open, stateDir)
	var runs []*engine.Run
	for _, text := range []string{
		"import os, time\nopen('began', 'w')\nwhile not os.path.exists('end'): time.sleep(0.01)", "v = 1"} {
		asks := code("python", text)
		asks.Background, asks.Request.Timeout = true, time.Minute
		x, err := s.Start(within(t), asks)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, x)
	}
	eventually(t, "the first run", func() bool { _, err := s.Stat(within(t), "began"); return err == nil })
	if err := first.Drain(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteFile(within(t), "end", 0, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	<-runs[0].Done()
	eventually(t, "the refusal of the second run", func() bool { return s.Info().Contexts[0].Waiting == 0 })
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(stateDir)
	defer second.Close()
	s = k.resumed(t, second, s.ID())
	x, err := s.FindRun(runs[1].ID())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := x.Wait(within(t)); err != nil || r.Status != sandbox.StatusSucceeded {
		t.Errorf("the run that waited: %+v, %v", r, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAnsweredContextsAreOnRecord: a context, its interpreter and its deletion are on record once a call has returned,
// also where the disk is slow.
func TestAnsweredContextsAreOnRecord(t *testing.T) {
	k, open := keeping(t)
	e := open(t.TempDir())
	defer e.Close()
	s, _, err := e.Create(within(t), engine.Create{})
	if err != nil {
		t.Fatal(err)
	}
	k.slow = 100 * time.Millisecond
	recorded := func(step string, contexts int) {
		t.Helper()
		list, live := k.record(s.ID()).Contexts, s.Info().Contexts
		if len(list) != contexts || len(live) != contexts {
			t.Fatalf("after %s: on record are %+v of %+v", step, list, live)
		}
		for i := range list {
			if list[i].ID != live[i].ID || list[i].Name != live[i].Name {
				t.Errorf("after %s: on record is %+v of %+v", step, list[i], live[i])
			}
		}
	}
	c, err := s.CreateContext(within(t), engine.ContextRequest{Name: "c1", Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	recorded("a create", 1)
	do(t, s, code("python", "x = 1"))
	recorded("a run in the default context", 2)
	before := c.Info().ID
	if err := c.Restart(within(t)); err != nil {
		t.Fatal(err)
	}
	recorded("a restart", 2)
	if former := k.record(s.ID()).Contexts[0].Former; len(former) != 1 || former[0] != before {
		t.Errorf("the former interpreters are %v, not %v", former, before)
	}
	if err := c.Delete(within(t)); err != nil {
		t.Fatal(err)
	}
	recorded("a deletion", 1)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAnsweredRunsAreFoundAfterKill: the next server knows every run whose result a client has, and counts it for its
// context.
func TestAnsweredRunsAreFoundAfterKill(t *testing.T) {
	k, open := keeping(t)
	stateDir, killed := t.TempDir(), t.TempDir()
	first, s := openOne(t, open, stateDir)
	for _, r := range []engine.RunRequest{code("python", "x = 1"), code("python", "y = 2"),
		{Request: sandbox.Request{Command: []string{"true"}}}} {
		do(t, s, r)
	}
	runs, contexts, record := s.Runs(), s.Info().Contexts, k.record(s.ID())
	if err := os.CopyFS(killed, os.DirFS(stateDir)); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open(killed)
	defer second.Close()
	second.Resume(within(t), []sandbox.Record{record})
	var err error
	if s, err = second.Sandbox(within(t), "", string(s.ID())); err != nil {
		t.Fatal(err)
	}
	found := map[sandbox.ID]engine.RunInfo{}
	for _, x := range s.Runs() {
		found[x.ID] = x
	}
	for _, x := range runs {
		if is := found[x.ID]; is.Status != x.Status || is.ExitCode != x.ExitCode || is.Context != x.Context ||
			is.Language != x.Language || !slices.Equal(is.Command, x.Command) || is.PID != x.PID {
			t.Errorf("the next server has %+v of %+v", is, x)
		}
	}
	if list := s.Info().Contexts; len(list) != 1 || list[0].Runs != contexts[0].Runs || list[0].Runs != 2 {
		t.Errorf("the next server has %+v of %+v", list, contexts)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAcknowledgedIsLogged: what the guest may forget is in the log, also at the end of code, which comes with a piece
// of its own.
func TestAcknowledgedIsLogged(t *testing.T) {
	const size = 64<<10 - 46 // one step of acknowledgement needs the ready and the done report too
	k, open := keeping(t)
	ran, ended := make(chan struct{}), make(chan struct{})
	var holds atomic.Bool
	k.Backend = &faults{Backend: k.Backend, usage: func(*sandbox.Usage) {
		if holds.CompareAndSwap(true, false) {
			close(ran)
			<-ended
		}
	}}
	stateDir, killed := t.TempDir(), t.TempDir()
	first, s := openOne(t, open, stateDir)
	asks := code("python", fmt.Sprintf("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n_ = os.write(1, b'x' * %d)", size))
	asks.Background, asks.Request.Timeout = true, time.Minute
	x, err := s.Start(within(t), asks)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the beginning of the code", func() bool { return s.Info().Contexts[0].State == "busy" })
	holds.Store(true)
	if err := s.WriteFile(within(t), "go", 0, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	<-ran
	if err := os.CopyFS(killed, os.DirFS(stateDir)); err != nil {
		t.Fatal(err)
	}
	close(ended)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open(killed)
	defer second.Close()
	second.Resume(within(t), []sandbox.Record{k.records[s.ID()]})
	if s, err = second.Sandbox(within(t), "", string(s.ID())); err != nil {
		t.Fatal(err)
	}
	if x, err = s.FindRun(x.ID()); err != nil {
		t.Fatal(err)
	}
	var got int
	var dropped int64
	err = x.Follow(within(t), 0, func(e engine.Event) error {
		got, dropped = got+len(e.Data), dropped+e.Dropped
		return nil
	})
	if r, failed := x.Wait(within(t)); err != nil || failed != nil || r.Status != sandbox.StatusSucceeded ||
		got != size || dropped != 0 {
		t.Errorf("%d bytes of %d, %d dropped, %v; %v, %v", got, size, dropped, err, r.Status, failed)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestResume: the next engine has the contexts that were not deleted, with their state. It goes on with code that runs,
// knows what had ended, and starts code that waited.
func TestResume(t *testing.T) {
	k, open := keeping(t)
	stateDir := t.TempDir()
	first := open(stateDir)
	s, _, err := first.Create(within(t), engine.Create{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, code("python", "x = 1"))
	deleted, err := s.CreateContext(within(t), engine.ContextRequest{Name: "deleted", Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	began := errors.New("began")
	start := func(name, text string) *engine.Run {
		asks := code("python", text)
		asks.Context, asks.Background, asks.Request.Timeout = name, true, time.Minute
		x, err := s.Start(within(t), asks)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	ended := start("deleted", "print(1)")
	if _, err := ended.Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := deleted.Delete(within(t)); err != nil {
		t.Fatal(err)
	}
	runs := start("", "print(1)\nwhile True: pass")
	if err := runs.Follow(within(t), 0, func(engine.Event) error { return began }); err != began {
		t.Fatal(err)
	}
	waits := start("", "x += 2")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open(stateDir)
	defer second.Close()
	if gone := second.Resume(within(t), []sandbox.Record{k.records[s.ID()]}); len(gone) != 0 {
		t.Fatalf("gone: %+v", gone)
	}
	if s, err = second.Sandbox(within(t), "", "a"); err != nil {
		t.Fatal(err)
	}
	if list := s.Info().Contexts; len(list) != 1 || list[0].Name != sandbox.DefaultContext {
		t.Errorf("the contexts are %+v", list)
	}
	for _, want := range []struct {
		id     sandbox.ID
		status sandbox.Status
		hint   sandbox.Hint
	}{{ended.ID(), sandbox.StatusSucceeded, nil}, {runs.ID(), sandbox.StatusCanceled, sandbox.HintCanceled},
		{waits.ID(), sandbox.StatusSucceeded, nil}} {
		x, err := s.FindRun(want.id)
		if err != nil {
			t.Fatal(err)
		}
		if want.id != waits.ID() {
			x.Cancel() // one that has ended stays as it was
		}
		r, err := x.Wait(within(t))
		if err != nil || r.Status != want.status || want.hint != nil && (len(r.Hints) == 0 || r.Hints[0] != want.hint) {
			t.Errorf("want %s, %s: %+v, %v", want.status, want.hint, r, err)
		}
		var last uint64
		if err := x.Follow(within(t), 0, func(e engine.Event) error { last = e.ID; return nil }); err != nil ||
			last != x.LastEvent() {
			t.Errorf("the last event is %d, not %d: %v", last, x.LastEvent(), err)
		}
	}
	if r := do(t, s, code("python", "x")); value(r) != "3" {
		t.Errorf("x is %q: %s, %q, %+v", value(r), r.Status, r.Stderr.Head, r.Hints)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if r := k.records[s.ID()]; r.Ended.IsZero() || r.Spec.ID != "" || r.Contexts != nil {
		// those of a thousand may be large
		t.Errorf("of a sandbox that ended, this is kept: %+v", r)
	}
}
