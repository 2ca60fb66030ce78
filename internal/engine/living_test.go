package engine_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// make makes a living sandbox.
func (r *rig) make(t *testing.T, asks engine.Create) *engine.Sandbox {
	t.Helper()
	s, _, err := r.Engine.Create(within(t), asks)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return s
}

// do runs a request in a living sandbox.
func do(t *testing.T, s *engine.Sandbox, asks engine.RunRequest) *sandbox.Result {
	t.Helper()
	result, err := s.Run(within(t), asks)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return result
}

func command(words ...string) engine.RunRequest {
	return engine.RunRequest{Request: sandbox.Request{Command: words}}
}

func script(text string) engine.RunRequest { return command("bash", "-c", text) }

// refused checks the kind of an error and what it says.
func refused(t *testing.T, what string, err error, kind sandbox.Kind, says string) {
	t.Helper()
	if err == nil || sandbox.KindOf(err) != kind || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v; want %s that says %q", what, err, kind, says)
	}
}

// TestLife: a sandbox lives by its name until it is removed, idle or old, belongs to its owner, and says why it is
// gone.
func TestLife(t *testing.T) {
	rig := newRig(t, engine.Config{Living: engine.LivingConfig{Most: 4, OwnerMost: 3}})
	a := rig.make(t, engine.Create{Owner: "ann", Name: "a", Spec: sandbox.Spec{Metadata: map[string]string{"k": "v"}}})
	again, made, err := rig.Engine.Create(within(t), engine.Create{Owner: "ann", Name: "a"})
	if err != nil || made || again != a {
		t.Errorf("the same name again: %v, made %v", err, made)
	}
	b := rig.make(t, engine.Create{Owner: "bob", Name: "a"})
	if b.ID() == a.ID() {
		t.Error("two owners share a sandbox")
	}
	_, err = rig.Sandbox(within(t), "bob", string(a.ID()))
	refused(t, "another owner's", err, sandbox.NotFound, "no living sandbox")
	rig.make(t, engine.Create{Owner: "ann"})
	rig.make(t, engine.Create{Owner: "ann", Spec: sandbox.Spec{Metadata: map[string]string{"k": "v", "l": "w"}}})
	_, _, err = rig.Engine.Create(within(t), engine.Create{Owner: "ann"})
	refused(t, "one too many", err, sandbox.Quota, "the most that are allowed")
	list, more, err := rig.Sandboxes("ann", map[string]string{"k": "v"}, "", 1)
	if err != nil || len(list) != 1 || list[0] != a.ID() || !more {
		t.Errorf("the first of a page: %v, more %v, %v", list, more, err)
	}
	if list, more, _ = rig.Sandboxes("ann", map[string]string{"k": "v"}, a.ID(), 0); len(list) != 1 || more ||
		rig.Living(list[0]).Info().Spec.Metadata["l"] != "w" {
		t.Errorf("the rest: %v, more %v", list, more)
	}

	idle := 2 * time.Second
	if err := a.Update(engine.Patch{Ends: engine.Ends{Idle: &idle}}); err != nil {
		t.Fatal(err)
	}
	if i := a.Info(); !i.IdleEnds.Before(i.Spec.Lifetime.EndsAt) || i.Spec.Lifetime.Idle != idle ||
		i.State != sandbox.StateReady {
		t.Errorf("after a change: %+v", i)
	}
	eventually(t, "the end of an idle sandbox", func() bool {
		_, err := rig.Sandbox(within(t), "ann", "a")
		return sandbox.KindOf(err) == sandbox.NotFound
	})
	_, err = rig.Sandbox(within(t), "ann", "a")
	refused(t, "an idle one", err, sandbox.NotFound, "idle for 2s")
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	_, err = b.Run(within(t), script("true"))
	refused(t, "a removed one", err, sandbox.NotFound, "it was removed")
}

// TestMakeInTurn: sandboxes of one owner are made within its share of the slots, and those of another do not wait for
// them.
func TestMakeInTurn(t *testing.T) {
	rig := newRig(t, engine.Config{Slots: 2, Shares: engine.Shares{OwnerSlots: 1}})
	var at, most atomic.Int32
	open := make(chan struct{})
	rig.create = func() error {
		now := at.Add(1)
		defer at.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		<-open
		return nil
	}
	var all sync.WaitGroup
	create := func(owner string) {
		all.Go(func() {
			if _, _, err := rig.Engine.Create(within(t), engine.Create{Owner: owner}); err != nil {
				t.Error(err)
			}
		})
	}
	for range 4 {
		create("ann")
	}
	eventually(t, "the first of ann", func() bool { return at.Load() == 1 })
	create("bob")
	eventually(t, "the first of bob", func() bool { return at.Load() == 2 })
	close(open)
	all.Wait()
	if n := most.Load(); n != 2 {
		t.Errorf("%d were made at a time", n)
	}
}

// TestEnds: both ends of a sandbox are set when it is created and later; an idle time of 0 is never.
func TestEnds(t *testing.T) {
	rig := newRig(t, engine.Config{})
	never, day, nothing := time.Duration(0), 24*time.Hour, time.Duration(-1)
	s := rig.make(t, engine.Create{Name: "a", Ends: engine.Ends{Idle: &never, In: day}})
	if i := s.Info(); !i.IdleEnds.IsZero() || i.Spec.Lifetime.Idle != 0 ||
		time.Until(i.Spec.Lifetime.EndsAt).Round(time.Hour) != day {
		t.Errorf("as created: %+v", i.Spec.Lifetime)
	}
	for _, wrong := range []engine.Ends{
		{Idle: &nothing}, {In: engine.MaxLifetime + 1}, {In: 1}, {At: time.Now().Add(engine.MaxLifetime + time.Hour)}} {
		refused(t, "a wrong end", s.Update(engine.Patch{Ends: wrong}), sandbox.Invalid, "lifetime")
	}
	at := time.Now().Add(time.Hour)
	if err := s.Update(engine.Patch{Ends: engine.Ends{Idle: &day, At: at}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(engine.Patch{Ends: engine.Ends{In: time.Minute}, Extend: true}); err != nil {
		t.Fatal(err)
	}
	if i := s.Info(); i.IdleEnds.IsZero() || !i.Spec.Lifetime.EndsAt.Equal(at) {
		t.Errorf("after a change: %+v", i.Spec.Lifetime)
	}
	if err := s.Update(engine.Patch{Ends: engine.Ends{At: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of a sandbox at its time", func() bool { return s.State() == sandbox.StateEnded })
	_, err := rig.Sandbox(within(t), "", "a")
	refused(t, "one whose time is over", err, sandbox.NotFound, "it reached its end time")
}

// TestCreateTogether: callers who ask for one name at once get one sandbox.
func TestCreateTogether(t *testing.T) {
	rig := newRig(t, engine.Config{})
	var all sync.WaitGroup
	ids := make([]sandbox.ID, 16)
	for i := range ids {
		all.Go(func() {
			if s, _, err := rig.Engine.Create(within(t), engine.Create{Name: "one"}); err == nil {
				ids[i] = s.ID()
			}
		})
	}
	all.Wait()
	if ids = slices.Compact(ids); len(ids) != 1 || ids[0] == "" {
		t.Errorf("made %q", ids)
	}
}

// TestCommands: commands share the sandbox's files, not its end; what they leave running goes on.
func TestCommands(t *testing.T) {
	rig := newRig(t, engine.Config{})
	s := rig.make(t, engine.Create{})
	do(t, s, script("echo kept > f; (while :; do sleep 0.01; echo >> ticks; done) >/dev/null 2>&1 &"))
	if r := do(t, s, script("cat f")); string(r.Stdout.Head) != "kept\n" {
		t.Errorf("the next command reads %q", r.Stdout.Head)
	}
	size := func() int64 {
		info, err := s.Stat(within(t), "ticks")
		if err != nil {
			return 0
		}
		return info.Size
	}
	was := size()
	eventually(t, "more of a background process", func() bool { return size() > was })

	asks := script("sleep 1000 & echo $! > child; sleep 1000")
	asks.Request.Timeout = 200 * time.Millisecond
	if r := do(t, s, asks); r.Status != sandbox.StatusTimeout {
		t.Errorf("ended as %s", r.Status)
	}
	if r := do(t, s, script("kill -0 $(cat child) 2>/dev/null || echo dead")); string(r.Stdout.Head) != "dead\n" {
		t.Errorf("a child outlives its command's deadline: %q", r.Stdout.Head)
	}
	was = size()
	eventually(t, "more of a background process after another command's deadline", func() bool { return size() > was })
	if r := do(t, s, command("no-such-command")); r.ExitCode != 127 {
		t.Errorf("a missing command: %+v", r)
	}
	_, err := s.Run(within(t), engine.RunRequest{Context: "x", Request: sandbox.Request{Command: []string{"true"}}})
	refused(t, "a command in a context", err, sandbox.Invalid, "context")
}

// TestDetached: a run goes on without its caller; its events can be replayed from any id, and followed by many.
func TestDetached(t *testing.T) {
	rig := newRig(t, engine.Config{})
	s := rig.make(t, engine.Create{})
	asks := script("echo started; while read line; do echo got $line; done; echo over >&2; exit 3")
	asks.Background, asks.Interactive = true, true
	x, err := s.Start(within(t), asks)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	if err := x.Follow(within(t), 0, func(e engine.Event) error { return enough }); err != enough {
		t.Fatal(err)
	}
	for _, line := range []string{"one\n", "two\n"} {
		if err := x.Input(within(t), []byte(line), line == "two\n"); err != nil {
			t.Fatal(err)
		}
	}
	all := func(after uint64) (out, errs string, ended *engine.Ended, ids []uint64) {
		if err := x.Follow(within(t), after, func(e engine.Event) error {
			ids = append(ids, e.ID)
			switch e.Kind {
			case eventlog.Stdout:
				out += string(e.Data)
			case eventlog.Stderr:
				errs += string(e.Data)
			}
			ended = e.Ended
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out, errs, ended, ids
	}
	out, errs, ended, ids := all(0)
	if out != "started\ngot one\ngot two\n" || errs != "over\n" || ended == nil || ended.ExitCode != 3 ||
		ended.Status != sandbox.StatusFailed {
		t.Errorf("%q, %q, %+v", out, errs, ended)
	}
	if rest, _, _, more := all(ids[0]); len(more) != len(ids)-1 || !strings.HasSuffix(out, rest) {
		t.Errorf("after the first event: %q, %v of %v", rest, more, ids)
	}
	err = x.Follow(within(t), ids[len(ids)-1]+1, nil)
	refused(t, "past the end", err, sandbox.Invalid, "the last is")
	<-x.Done()
	refused(t, "stdin after the end", x.Input(within(t), nil, true), sandbox.NotFound, "not running")

	asks = script("trap 'echo hup; exit 7' HUP; echo ready; while :; do sleep 0.01; done")
	asks.Background = true
	if x, err = s.Start(within(t), asks); err != nil {
		t.Fatal(err)
	}
	if err := x.Follow(within(t), 0, func(engine.Event) error { return enough }); err != enough {
		t.Fatal(err)
	}
	if err := x.Signal(within(t), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if r, err := x.Wait(within(t)); err != nil || r.ExitCode != 7 {
		t.Errorf("after a signal: %+v, %v", r, err)
	}
	if list := s.Runs(); len(list) != 2 || list[0].ExitCode != 3 || list[1].ExitCode != 7 {
		t.Errorf("the runs: %+v", list)
	}
}

// TestFiles: files go in and out whole, and bad paths are refused with their reason.
func TestFiles(t *testing.T) {
	rig := newRig(t, engine.Config{})
	s := rig.make(t, engine.Create{})
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	if err := s.WriteFile(within(t), "a/b.bin", 0o600, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if info, err := s.ReadFile(within(t), "a/b.bin", 5, 10, &got); err != nil || got.String() != "5678901234" ||
		info.Size != int64(len(content)) || info.Mode != 0o600 {
		t.Errorf("a range: %q, %+v, %v", got.String(), info, err)
	}
	if err := s.MoveFile(within(t), "a/b.bin", "a/c.bin", false); err != nil {
		t.Fatal(err)
	}
	if list, more, err := s.ListFiles(within(t), ".", 2, 0); err != nil || more || len(list) != 2 ||
		list[1].Path != "a/c.bin" {
		t.Errorf("a listing: %+v, %v, %v", list, more, err)
	}
	refused(t, "a folder that is not empty", s.RemoveFile(within(t), "a", false), sandbox.Exists, "")
	_, err := s.ReadFile(within(t), "none", 0, 0, &got)
	refused(t, "a file that is not there", err, sandbox.NotFound, "")
	refused(t, "the kernel's files", s.WriteFile(within(t), "/proc/self/mem", 0, &got), sandbox.Invalid,
		"not a file of the sandbox")
	refused(t, "a path that leaves", s.WriteFile(within(t), "../../proc/x", 0, &got), sandbox.Invalid,
		"not a file of the sandbox")
	if err := s.Clean(within(t), false); err != nil {
		t.Fatal(err)
	}
	if list, _, err := s.ListFiles(within(t), ".", 1, 0); err != nil || len(list) != 0 {
		t.Errorf("after clean: %+v, %v", list, err)
	}
	// Names are the code's choice, so a listing is bounded in their bytes too.
	deep := "d=$(printf '%0250d' 0); for i in {1..14}; do mkdir $d; cd $d; done; for i in {1..1300}; do :> $i; done"
	if r, err := s.Run(within(t), engine.RunRequest{Request: sandbox.Request{Command: []string{"bash", "-c", deep}}}); err != nil || r.ExitCode != 0 {
		t.Fatal(r, err)
	}
	list, more, err := s.ListFiles(within(t), ".", 15, 0)
	size := 0
	for _, f := range list {
		size += len(f.Path)
	}
	if err != nil || !more || size < 3<<20 || size > 4<<20 {
		t.Errorf("%d entries, more %v, %d bytes, %v", len(list), more, size, err)
	}
}

// contextRig is a sandbox with the real languages.
func contextRig(t *testing.T) (*rig, *engine.Sandbox) {
	rig := newRig(t, engine.Config{Languages: lang.All(), Slots: 8})
	return rig, rig.make(t, engine.Create{})
}

func code(language, text string) engine.RunRequest {
	return engine.RunRequest{Request: sandbox.Request{Language: language, Code: []byte(text)}}
}

// TestUnendedRuns: the runs of an owner that have not ended are bounded, as no slot limits them.
func TestUnendedRuns(t *testing.T) {
	rig := newRig(t, engine.Config{Languages: lang.All(), Living: engine.LivingConfig{Runs: 4}})
	a, b := rig.make(t, engine.Create{Owner: "a"}), rig.make(t, engine.Create{Owner: "b"})
	background := script("sleep 100")
	background.Detach()
	var runs []*engine.Run
	for range 2 {
		x, err := a.Start(within(t), background)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, x)
	}
	if _, err := a.Start(within(t), background); sandbox.KindOf(err) != sandbox.Busy {
		t.Errorf("one too many: %v", err)
	}
	do(t, b, script("true"))
	runs[0].Cancel()
	<-runs[0].Done()
	eventually(t, "another may begin", func() bool {
		_, err := a.Start(within(t), background)
		return err == nil
	})
}

// TestEndless: a run in the background holds no slot and runs longer than the limit of its sandbox, also code in a
// context. A limit that it names ends it. A run without a limit whose caller waits holds its slot.
// What a run leaves behind goes on.
func TestEndless(t *testing.T) {
	rig := newRig(t, engine.Config{Languages: lang.All(), Slots: 1, Max: sandbox.Limits{Timeout: time.Hour}})
	limit := 200 * time.Millisecond
	s := rig.make(t, engine.Create{Spec: sandbox.Spec{Limits: sandbox.Limits{Timeout: limit}}})
	detach := func(x engine.RunRequest) *engine.Run {
		x.Detach()
		run, err := s.Start(within(t), x)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	process, cell := detach(script("sleep 100")), detach(code("python", "import time; time.sleep(100)"))
	eventually(t, "more time than the limit of the sandbox", func() bool {
		return time.Since(process.Info().Began) > 2*limit && time.Since(cell.Info().Began) > 2*limit
	})
	for _, x := range []*engine.Run{process, cell} {
		if i := x.Info(); i.Status != sandbox.StatusRunning || !i.Deadline.IsZero() {
			t.Errorf("a background run: %+v", i)
		}
	}
	named := script("sleep 100")
	named.Request.Timeout = limit
	<-detach(named).Done() // it holds the slot until then
	if r := do(t, s, script("sleep 100")); r.Status != sandbox.StatusTimeout {
		t.Errorf("a run with the limit of the sandbox: %s", r.Status)
	}
	freed := script("sleep 100")
	freed.Request.Timeout, freed.FreesSlot = time.Minute, true
	if i := detach(freed).Info(); i.Deadline.IsZero() {
		t.Errorf("a run that frees its slot: %+v", i)
	}
	child := strings.TrimSpace(string(do(t, s, script("nohup sleep 100 >/dev/null & echo $!")).Stdout.Head))
	long := script("sleep 0.6; kill -0 " + child)
	long.Request.Timeout = sandbox.NoTimeout
	if r := do(t, s, long); r.Status != sandbox.StatusSucceeded {
		t.Errorf("a run without a limit: %s", r.Status)
	}
	held := script("touch begun; sleep 100")
	held.Request.Timeout = sandbox.NoTimeout
	x, err := s.Start(within(t), held)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has begun", func() bool {
		_, err := s.Stat(within(t), "begun")
		return err == nil
	})
	rig.leaveQueue(t)
	x.Cancel()
	_, err = rig.Run(within(t), engine.OneShot{Request: long.Request})
	refused(t, "a one-shot run without a limit", err, sandbox.Invalid, "over the server's maximum")
}

// TestEndOfOutput: the events of a run have the end of output past its limit, where a traceback is, after a gap.
func TestEndOfOutput(t *testing.T) {
	rig := newRig(t, engine.Config{})
	s := rig.make(t, engine.Create{Spec: sandbox.Spec{Limits: sandbox.Limits{OutputBytes: 1024}}})
	x, err := s.Start(within(t), command("sh", "-c", "yes abc | head -n 500; echo end >&2; echo end"))
	if err != nil {
		t.Fatal(err)
	}
	var text string
	var dropped, end int64
	err = x.Follow(within(t), 0, func(e engine.Event) error {
		if e.Kind == eventlog.Stdout {
			text, dropped, end = text+string(e.Data), dropped+e.Dropped, e.Offset+int64(len(e.Data))
		}
		return nil
	})
	if r, failed := x.Wait(within(t)); err != nil || failed != nil || !strings.HasSuffix(text, string(r.Stdout.Tail)) ||
		len(text) != 1536 || dropped != 2004-1536 || end != 2004 {
		t.Errorf("%d bytes, %d dropped, up to %d; %v, %v", len(text), dropped, end, err, failed)
	}
}

// TestGiveUp: a call that made a sandbox and fails later ends it, unless another call has found it.
func TestGiveUp(t *testing.T) {
	rig := newRig(t, engine.Config{})
	broken := errors.New("broken")
	asks := engine.Create{Name: "a", Prepare: func(context.Context, *engine.Sandbox) error { return broken }}
	if _, _, err := rig.Engine.Create(within(t), asks); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	_, err := rig.Engine.Sandbox(within(t), "", "a")
	refused(t, "one that was given up", err, sandbox.NotFound, "could not be completed")
	var found *engine.Sandbox
	asks.Prepare = func(context.Context, *engine.Sandbox) error {
		found = rig.make(t, engine.Create{Name: "a"})
		return broken
	}
	if _, _, err := rig.Engine.Create(within(t), asks); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := found.Ended(); err != nil {
		t.Errorf("another call has it: %v", err)
	}
	asks.Prepare = func(ctx context.Context, _ *engine.Sandbox) error { return ctx.Err() }
	left, leave := context.WithCancel(within(t))
	leave()
	if again, made, err := rig.Engine.Create(left, asks); err == nil && (made || again != found) {
		t.Errorf("made %t", made)
	}
	if err := found.Ended(); err != nil {
		t.Errorf("a client that left ended it: %v", err)
	}
}
