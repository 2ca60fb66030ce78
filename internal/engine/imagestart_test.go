package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// starting returns a start command in bash, with a check.
func starting(text, check string) *sandbox.Start {
	return &sandbox.Start{Command: []string{"bash", "-c", text}, Ready: []string{"bash", "-c", check}}
}

// TestImageStart: a sandbox of an image is ready once the check of its start command succeeds. Runs, warm ones too, and
// living sandboxes find it running, with their environment.
func TestImageStart(t *testing.T) {
	rig := newRig(t, engine.Config{Warm: 1})
	rig.set(func(f *faults) {
		f.start = starting(`sleep 0.05; echo "up $WHO" > up; yes | head -c 5000000; echo $$ > pid; exec sleep 1000`,
			"test -e pid")
	})
	spec := sandbox.Spec{Root: sandbox.Root{Image: "web"}}
	if err := rig.KeepWarm(within(t), []string{"web"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "warm sandboxes", func() bool { return rig.Stats().Warm == 1 }) // of runs and living ones alike
	before, _ := rig.count()
	for _, who := range []string{"", "me", ""} {
		run := sh("cat up; kill -0 $(cat pid)")
		if run.Spec = spec; who != "" {
			run.Spec.Env = []string{"WHO=" + who}
		}
		if r := rig.run(t, run); r.Status != sandbox.StatusSucceeded || string(r.Stdout.Head) != "up "+who+"\n" {
			t.Errorf("%q: %s, %q, %q", who, r.Status, r.Stdout.Head, r.Stderr.Head)
		}
	}
	if after, _ := rig.count(); before == 0 || after == before {
		t.Errorf("%d boxes, then %d", before, after)
	}
	s := rig.make(t, engine.Create{Spec: spec})
	if r := do(t, s, script("cat up")); string(r.Stdout.Head) != "up \n" {
		t.Errorf("a living sandbox: %q, %q", r.Stdout.Head, r.Stderr.Head)
	}
	if i := s.Info(); i.Running != 0 || i.IdleEnds.IsZero() {
		t.Errorf("the start command counts as a run: %+v", i)
	}
	without := sh("cat up")
	without.Spec, without.WithoutStart = spec, true
	if r := rig.run(t, without); r.Status != sandbox.StatusFailed {
		t.Errorf("without it: %s, %q", r.Status, r.Stdout.Head)
	}
}

// TestImageStartFails: a command that ends before its check succeeds is an error with the end of its output; one that
// succeeds has left a server behind.
func TestImageStartFails(t *testing.T) {
	rig := newRig(t, engine.Config{})
	for _, c := range []struct {
		start *sandbox.Start
		says  string
	}{
		{starting("echo going; echo no port >&2; exit 3", "false"), "exit status 3; it wrote: going\nno port"},
		{starting("yes | head -c 300000; echo last; kill -9 $$", "false"), "y\nlast"},
		{&sandbox.Start{Command: []string{"/none/such"}}, "the start command cannot run"},
		{&sandbox.Start{Command: []string{"sleep", "9"}, Ready: []string{"/none/such"}}, "the ready check cannot run"},
		{starting("(sleep 0.1; touch up; sleep 100) & exit 0", "test -e up"), ""},
		{&sandbox.Start{Command: []string{"sleep", "100"}}, ""},
	} {
		rig.set(func(f *faults) { f.start = c.start })
		run := sh("true")
		run.Spec.Root.Image = "web"
		_, err := rig.Run(within(t), run)
		if c.says == "" && err == nil {
			continue
		}
		if err == nil || sandbox.KindOf(err) != sandbox.Invalid || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v; want %q", c.start.Command, err, c.says)
		}
		if _, _, err := rig.Engine.Create(within(t), engine.Create{Spec: run.Spec}); err == nil {
			t.Errorf("%q: a living sandbox was made", c.start.Command)
		}
	}
}

// logLines receives the lines of a log.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// TestWarmImageFails: an image whose sandboxes cannot start is in the log once, though they are requested again.
func TestWarmImageFails(t *testing.T) {
	log := make(logLines, 100)
	rig := newRig(t, engine.Config{Warm: 1, Log: slog.New(slog.NewTextHandler(log, nil))})
	rig.set(func(f *faults) { f.start = &sandbox.Start{Command: []string{"/none/such"}} })
	warm := func() {
		if err := rig.KeepWarm(within(t), []string{"web"}); err != nil {
			t.Fatal(err)
		}
	}
	warm()
	select {
	case line := <-log:
		if !strings.Contains(line, "image=web") || !strings.Contains(line, "the start command cannot run") {
			t.Error(line)
		}
	case <-within(t).Done():
		t.Fatal("no line in the log")
	}
	if testing.Short() {
		return
	}
	before, _ := rig.count()
	eventually(t, "another attempt", func() bool {
		time.Sleep(time.Second) // boxes are not made again at once
		warm()
		after, _ := rig.count()
		return after > before && rig.Stats().Live == 0
	})
	if len(log) > 0 {
		t.Errorf("another line: %s", <-log)
	}
}

// TestImageStartResumed: the start command outlives its server.
func TestImageStartResumed(t *testing.T) {
	k, _ := keeping(t)
	b := struct {
		*keeper
		sandbox.Rooted
	}{k, &faults{start: starting("echo $$ > pid; exec sleep 1000", "test -s pid")}}
	config := engine.Config{Backends: []sandbox.Backend{b}, Languages: []sandbox.Language{shell},
		Living: engine.LivingConfig{StateDir: t.TempDir(), Store: k}}
	first, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := first.Create(within(t), engine.Create{Spec: sandbox.Spec{Root: sandbox.Root{Image: "web"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if gone := second.Resume(within(t), []sandbox.Record{k.records[s.ID()]}); len(gone) != 0 {
		t.Fatalf("gone: %+v", gone)
	}
	if s, err = second.Sandbox(within(t), "", string(s.ID())); err != nil {
		t.Fatal(err)
	}
	for range 20 { // what nothing claims is ended in the background
		if r := do(t, s, script("kill -0 $(cat pid)")); r.Status != sandbox.StatusSucceeded {
			t.Fatal("the start command was ended")
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestPullSlots: a pull of an image holds a slot of its owner.
func TestPullSlots(t *testing.T) {
	rig := newRig(t, engine.Config{Slots: 1, Queue: 1})
	pulling, finish := make(chan bool), make(chan bool)
	rig.set(func(f *faults) {
		f.pull = func(context.Context) error {
			pulling <- true
			<-finish
			return nil
		}
	})
	run := engine.OneShot{Spec: sandbox.Spec{Root: sandbox.Root{Image: "web"}},
		Request: sandbox.Request{Command: []string{"true"}}}
	results := make(chan error)
	for range 2 { // one pulls, one waits
		go func() {
			_, err := rig.Run(within(t), run)
			results <- err
		}()
	}
	<-pulling
	eventually(t, "a full queue", func() bool { return rig.Stats().Queued == 1 })
	if _, err := rig.Run(within(t), run); sandbox.KindOf(err) != sandbox.Busy {
		t.Errorf("a third one: %v", err)
	}
	finish <- true
	<-pulling
	finish <- true
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// TestParkedMemory: the interpreter of an image that takes much memory before its program waits in no sandbox.
func TestParkedMemory(t *testing.T) {
	log := make(logLines, 100)
	rig := newRig(t, engine.Config{Warm: 1, Languages: lang.All(), Log: slog.New(slog.NewTextHandler(log, nil))})
	if err := rig.KeepWarm(within(t), []string{"web"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a warm sandbox", func() bool { return rig.Stats().Warm == 1 })
	var taken atomic.Int64
	rig.set(func(f *faults) { f.usage = func(u *sandbox.Usage) { u.MemoryNow = taken.Add(100 << 20) } })
	run := engine.OneShot{Request: sandbox.Request{Language: "python", Code: []byte("pass")},
		Spec: sandbox.Spec{Root: sandbox.Root{Image: "web"}}}
	if r := rig.run(t, run); r.Status != sandbox.StatusSucceeded {
		t.Fatalf("%s, %q", r.Status, r.Stderr.Head)
	}
	select {
	case line := <-log:
		if !strings.Contains(line, "it took too much before its program") {
			t.Error(line)
		}
	case <-within(t).Done():
		t.Fatal("no line in the log")
	}
	eventually(t, "a warm sandbox without it", func() bool { s := rig.Stats(); return s.Live == 1 && s.Warm == 1 })
}
