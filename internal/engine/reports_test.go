package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestHeldReports: unfinished reports of code without a time limit, which holds no slot, may take so many bytes.
func TestHeldReports(t *testing.T) {
	rig := newRig(t, engine.Config{Languages: lang.All(), Living: engine.LivingConfig{Reports: 4 << 20}})
	s := rig.make(t, engine.Create{})
	const unfinished = `
import os, stat, time
for fd in range(3, 256):
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.set_blocking(fd, True)
            os.write(fd, b"result 4000000\n" + bytes(100))
            for _ in range(12): os.write(fd, bytes(100_000))
    except OSError: pass
open("done-%d", "w")
time.sleep(1000)`
	var runs []*engine.Run
	for i := range 2 { // half of the room is for one owner
		name := fmt.Sprint("c", i)
		if _, err := s.CreateContext(within(t), engine.ContextRequest{Name: name, Language: "python"}); err != nil {
			t.Fatal(err)
		}
		x := code("python", fmt.Sprintf(unfinished, i))
		x.Context = name
		x.Detach()
		run, err := s.Start(within(t), x)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
		eventually(t, "it has reported or ended", func() bool {
			_, err := s.Stat(within(t), fmt.Sprint("done-", i))
			return err == nil || run.Info().Status != sandbox.StatusRunning
		})
	}
	eventually(t, "the second has ended", func() bool { return runs[1].Info().Status != sandbox.StatusRunning })
	if i := runs[0].Info(); i.Status != sandbox.StatusRunning {
		t.Errorf("the first: %s", i.Status)
	}
}

// TestHeldAnswers: unfinished answers of interpreters share a bound, also those whose callers have left.
func TestHeldAnswers(t *testing.T) {
	rig := newRig(t, engine.Config{Languages: lang.All(), Living: engine.LivingConfig{Reports: 4 << 20}})
	s := rig.make(t, engine.Create{})
	const unfinished = `
import posix
driver = display.__globals__
send = driver["send"]
def forged(kind, *fields, **options):
    if kind != b"matches": return send(kind, *fields, **options)
    posix.write(driver["outgoing"], b"result 4000000\n")
    left = 1_600_000
    while left > 0: left -= posix.write(driver["outgoing"], bytes(min(left, 60_000)))
    posix.mkdir("wrote")
driver["send"] = forged`
	hostile := func(name string) *engine.Context {
		c, err := s.CreateContext(within(t), engine.ContextRequest{Name: name, Language: "python"})
		if err != nil {
			t.Fatal(err)
		}
		x := code("python", unfinished)
		x.Context = name
		do(t, s, x)
		return c
	}
	first := hostile("c0")
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, _, err := first.Complete(ctx, "pri", 3)
		left <- err
	}()
	eventually(t, "the first answer", func() bool { _, err := s.Stat(within(t), "wrote"); return err == nil })
	second := hostile("c1") // meanwhile most of the first answer arrives
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	// half of the room is for one owner
	if _, _, err := second.Complete(within(t), "pri", 3); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("the second: %v", err)
	}
}

// TestEndedInterpreter: a context whose interpreter ended in the middle of a report holds nothing of it.
func TestEndedInterpreter(t *testing.T) {
	_, s := contextRig(t)
	do(t, s, code("python", "1"))
	const size = 8_000_000
	before := heapSize()
	for i := range 2 {
		name := fmt.Sprint("c", i)
		if _, err := s.CreateContext(within(t), engine.ContextRequest{Name: name, Language: "python"}); err != nil {
			t.Fatal(err)
		}
		x := code("python", fmt.Sprintf(`
import os, posix
fd = display.__globals__["outgoing"]
posix.write(fd, b"result %d\n")
left = %[1]d - 1
while left > 0: left -= posix.write(fd, bytes(min(left, 60_000)))
os._exit(0)`, size))
		x.Context = name
		do(t, s, x)
	}
	if held := heapSize() - before; held > size/2 {
		t.Errorf("%d bytes are held", held)
	}
	runtime.KeepAlive(s)
}

// TestBackgroundOutput: the server holds little of the output of processes that live long, which the log has.
func TestBackgroundOutput(t *testing.T) {
	const count, size = 2, 1 << 20
	s := newRig(t, engine.Config{}).make(t, engine.Create{Spec: sandbox.Spec{
		Limits: sandbox.Limits{OutputBytes: 4 * size}}})
	for _, terminal := range []*engine.TerminalSize{nil, {Rows: 1, Cols: 80}} {
		before := heapSize()
		for range count {
			x := script(fmt.Sprintf("yes xxxxxxx | head -c %d; yes xxxxxxx | head -c %[1]d >&2; echo; echo end; "+
				"sleep 1000", size))
			x.Terminal = terminal
			x.Detach()
			run, err := s.Start(within(t), x)
			if err != nil {
				t.Fatal(err)
			}
			enough := errors.New("enough")
			err = run.Follow(within(t), 0, func(e engine.Event) error {
				if strings.HasSuffix(strings.TrimSpace(string(e.Data)), "end") {
					return enough
				}
				return nil
			})
			if !errors.Is(err, enough) {
				t.Fatal(err)
			}
		}
		if held := heapSize() - before; held > count*(900<<10) { // most of it is the guest's
			t.Errorf("%d runs hold %d bytes, terminal: %v", count, held, terminal != nil)
		}
	}
	runtime.KeepAlive(s)
}

// TestBackgroundResults: the server holds no results of code in the background, which its log has.
func TestBackgroundResults(t *testing.T) {
	_, s := contextRig(t)
	const count, size = 4, 6_000_000
	x := code("python", fmt.Sprintf("class Large:\n  def _repr_html_(self): return 'x' * %d\nfor i in range(%d): "+
		"display(Large())\nimport time\ntime.sleep(1000)", size, count))
	held := heldBy(t, s, x, count, func(e engine.Event) bool { return e.Result != nil })
	if held > size/2 { // not even the last
		t.Errorf("%d bytes are held of %d", held, count*size)
	}
}

// TestWaitingCalls: the server holds no arguments of calls that wait, which the log has.
func TestWaitingCalls(t *testing.T) {
	_, s := contextRig(t)
	const count, size = 16, 1_000_000
	x := withTools("python", fmt.Sprintf("from concurrent.futures import ThreadPoolExecutor as P\n"+
		"with P(%d) as p: list(p.map(lambda i: search('x' * %d), range(%[1]d)))", count, size), searchTool)
	x.Request.Calls.Limits.Bytes = 2 * count * size
	held := heldBy(t, s, x, count, func(e engine.Event) bool { return e.Call != nil })
	if held > count*size/2 {
		t.Errorf("%d bytes are held of %d", held, count*size)
	}
}

// heldBy starts a run in the background and waits for so many events of a kind. It returns what the server then holds.
func heldBy(t *testing.T, s *engine.Sandbox, x engine.RunRequest, count int, is func(engine.Event) bool) int64 {
	t.Helper()
	x.Detach()
	before := heapSize()
	run, err := s.Start(within(t), x)
	if err != nil {
		t.Fatal(err)
	}
	enough, seen := errors.New("enough"), 0
	err = run.Follow(within(t), 0, func(e engine.Event) error {
		if is(e) {
			seen++
		}
		if seen == count {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(seen, err)
	}
	held := heapSize() - before
	runtime.KeepAlive(run)
	return held
}

// heapSize is the size of what is in use.
func heapSize() int64 {
	runtime.GC()
	runtime.GC() // empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
