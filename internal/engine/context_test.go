package engine_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// value is the text of the last expression's value.
func value(r *sandbox.Result) string {
	for _, value := range r.Results {
		for _, form := range value.Forms {
			if value.Main && form.Type == "text/plain" {
				return string(form.Data)
			}
		}
	}
	return ""
}

func hasHint[T sandbox.Hint](r *sandbox.Result) bool {
	_, has := sandbox.HintOf[T](r.Hints)
	return has
}

// TestContexts: each language keeps its state between runs, and each context its own.
func TestContexts(t *testing.T) {
	_, s := contextRig(t)
	for _, c := range []struct{ language, first, second, out, value string }{
		{"python", "x = 20; import math", "x += 1; print('hi'); math.floor(x * 2.0)", "hi\n", "42"},
		{"javascript", "let x = 20; const f = y => y * 2", "console.log('hi'); f(x + 1)", "hi\n", "42"},
		{"bash", "x=20; f() { echo hi; }; cd /tmp", "f; pwd; echo $((x + 22))", "hi\n/tmp\n42\n", ""},
	} {
		do(t, s, code(c.language, c.first))
		r := do(t, s, code(c.language, c.second))
		if r.Status != sandbox.StatusSucceeded || string(r.Stdout.Head) != c.out || value(r) != c.value {
			t.Errorf("%s: %s, %q, %q, %q", c.language, r.Status, r.Stdout.Head, r.Stderr.Head, value(r))
		}
	}
	if _, err := s.CreateContext(within(t), engine.ContextRequest{Name: "other", Language: "py"}); err != nil {
		t.Fatal(err)
	}
	other := code("python", "x")
	other.Context = "other"
	if r := do(t, s, other); r.Status != sandbox.StatusFailed || r.Exception == nil ||
		r.Exception.Name != "NameError" || !strings.Contains(string(r.Stderr.Head), "NameError") {
		t.Errorf("another context knows x: %+v", r)
	}
	_, err := s.CreateContext(within(t), engine.ContextRequest{Name: "other", Language: "bash"})
	refused(t, "a name that is taken", err, sandbox.Exists, "other")
	other.Context = "none"
	_, err = s.Run(within(t), other)
	refused(t, "an unknown context", err, sandbox.NotFound, "none")
	c, err := s.Context("other")
	if err != nil {
		t.Fatal(err)
	}
	if start, names, err := c.Complete(within(t), "impo", 4); err != nil || start != 0 || len(names) == 0 ||
		names[0] != "import" {
		t.Errorf("completion: %d, %q, %v", start, names, err)
	}
	if _, _, err := c.Complete(within(t), strings.Repeat("x", 2<<20), 0); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("completion of 2 MiB: %v", err)
	}
	if err := c.Delete(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Context("other"); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("a deleted context: %v", err)
	}
}

// TestContextEnds: what ends a run early keeps the state if the interpreter can go on; otherwise the result says that
// it is lost, and the next run has a new interpreter.
func TestContextEnds(t *testing.T) {
	_, s := contextRig(t)
	for _, c := range []struct {
		name, code string
		timeout    time.Duration
		status     sandbox.Status
		exit       int
		kept       bool
	}{
		{"a loop", "while True: pass", 300 * time.Millisecond, sandbox.StatusTimeout, -1, true},
		{"a sleep", "import time; time.sleep(1000)", 300 * time.Millisecond, sandbox.StatusTimeout, -1, true},
		{"one that ignores interrupts", "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)",
			300 * time.Millisecond, sandbox.StatusTimeout, -1, false},
		{"exit", "exit(3)", 0, sandbox.StatusFailed, 3, true},
		{"sudden exit", "import os; os._exit(4)", 0, sandbox.StatusFailed, 4, false},
		{"exec", "import os; os.execv('/bin/sh', ['sh', '-c', 'exit 5'])", 0, sandbox.StatusFailed, 5, false},
		{"a signal", "import os; os.kill(os.getpid(), 9)", 0, sandbox.StatusKilled, -1, false},
		{"a closed channel", "import os; os.closerange(3, 1000)", 0, sandbox.StatusFailed, -2, false},
		{"a forged report", "import os, glob\nfor f in glob.glob('/proc/self/fd/*'):\n  n = int(f.rsplit('/', 1)[1])\n  if n > 2:\n    try: os.write(n, b'nonsense x\\n')\n    except OSError: pass", 0, sandbox.StatusKilled, -2, false},
		{"a fork that goes on", "import os\nif os.fork() == 0: raise ValueError('child')\nos.wait()", 0,
			sandbox.StatusSucceeded, 0, true},
		{"no builtins", "import builtins, sys\nbuiltins.print = builtins.len = builtins.compile = builtins.open = None\nsys.modules.clear()", 0, sandbox.StatusSucceeded, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c, name := c, strings.ReplaceAll(c.name, " ", "-")
			if _, err := s.CreateContext(within(t), engine.ContextRequest{Name: name, Language: "python"}); err != nil {
				t.Fatal(err)
			}
			in := func(text string) *sandbox.Result {
				asks := code("python", text)
				asks.Context, asks.Request.Timeout = name, c.timeout
				return do(t, s, asks)
			}
			in("state = 1")
			r := in(c.code)
			if r.Status != c.status || c.exit > -2 && r.ExitCode != c.exit {
				t.Errorf("ended as %s %d; %q, %+v", r.Status, r.ExitCode, r.Stderr.Head, r.Hints)
			}
			if hasHint[sandbox.HintStateLost](r) == c.kept {
				t.Errorf("hints %+v; state kept: %v", r.Hints, c.kept)
			}
			if after := in("state"); (after.Status == sandbox.StatusSucceeded) != c.kept {
				t.Errorf("afterwards: %s %q, %q", after.Status, value(after), after.Stderr.Head)
			}
			ctx, err := s.Context(name)
			if err == nil {
				err = ctx.Delete(within(t))
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestInterrupt: an interrupt and a cancellation end code and keep its state.
func TestInterrupt(t *testing.T) {
	_, s := contextRig(t)
	do(t, s, code("python", "x = 1"))
	for _, end := range []func(x *engine.Run) error{
		func(*engine.Run) error {
			c, err := s.Context(sandbox.DefaultContext)
			if err != nil {
				return err
			}
			return c.Interrupt(within(t))
		},
		func(x *engine.Run) error { x.Cancel(); return nil },
	} {
		asks := code("python", "print('began')\nwhile True: x += 1")
		asks.Background = true
		x, err := s.Start(within(t), asks)
		if err != nil {
			t.Fatal(err)
		}
		began := fmt.Errorf("began")
		if err := x.Follow(within(t), 0, func(engine.Event) error { return began }); err != began {
			t.Fatal(err)
		}
		if err := end(x); err != nil {
			t.Fatal(err)
		}
		r, err := x.Wait(within(t))
		if err != nil || r.Status != sandbox.StatusFailed && r.Status != sandbox.StatusCanceled || r.Exception == nil ||
			r.Exception.Name != "KeyboardInterrupt" || !slices.Contains(r.Hints, sandbox.Hint(sandbox.HintStateKept)) ||
			hasHint[sandbox.HintExitCode](r) {
			t.Errorf("%+v, %v", r, err)
		}
		if r := do(t, s, code("python", "x > 0")); value(r) != "True" {
			t.Errorf("x is lost: %q, %q", value(r), r.Stderr.Head)
		}
	}
}

// TestOutputsApart: runs in several contexts run side by side, those of one context in turn, and none gets another's
// output.
func TestOutputsApart(t *testing.T) {
	_, s := contextRig(t)
	var all sync.WaitGroup
	for c := range 3 {
		name := fmt.Sprintf("c%d", c)
		if _, err := s.CreateContext(within(t), engine.ContextRequest{Name: name, Language: "python"}); err != nil {
			t.Fatal(err)
		}
		for n := range 20 {
			all.Go(func() {
				asks := code("python", fmt.Sprintf(
					"import sys\nfor i in range(200): print('%d-%d'); print('%d-%d', file=sys.stderr)\n'%d-%d'", c, n,
					c, n, c, n))
				asks.Context = name
				r, err := s.Run(within(t), asks)
				if err != nil {
					t.Error(err)
					return
				}
				want := strings.Repeat(fmt.Sprintf("%d-%d\n", c, n), 200)
				if string(r.Stdout.Head) != want || string(r.Stderr.Head) != want ||
					value(r) != fmt.Sprintf("'%d-%d'", c, n) {
					t.Errorf("%d-%d: %.60q, %.60q, %q", c, n, r.Stdout.Head, r.Stderr.Head, value(r))
				}
			})
		}
	}
	all.Wait()
}

// TestContextLimits: large output, large values and large exceptions cost only their run.
func TestContextLimits(t *testing.T) {
	_, s := contextRig(t)
	r := do(t, s, code("python", "x = 1\nprint('y' * 40_000_000)"))
	if r.Status != sandbox.StatusSucceeded || len(r.Stdout.Head)+len(r.Stdout.Tail) > 1<<20 ||
		r.Stdout.Dropped < 38_000_000 {
		t.Errorf("a long line: %s, %d dropped", r.Status, r.Stdout.Dropped)
	}
	if r = do(t, s, code("python", "while True: print('y' * 1_000_000)")); r.Status != sandbox.StatusOutputLimit {
		t.Errorf("output without end: %s", r.Status)
	}
	if r = do(t, s, code("python", "raise ValueError('z' * 2_000_000)")); r.Exception == nil ||
		r.Exception.Value != strings.Repeat("z", 2_000_000) {
		t.Errorf("a large exception: %s, %+v", r.Status, r.Hints)
	}
	if r = do(t, s, code("python", "'w' * 100_000_000")); r.Status != sandbox.StatusSucceeded ||
		len(value(r)) > 16<<20 || len(value(r)) == 0 {
		t.Errorf("a large value: %s, %d bytes", r.Status, len(value(r)))
	}
	if r = do(t, s, code("python", "x")); value(r) != "1" {
		t.Errorf("the state is lost: %q, %q", value(r), r.Stderr.Head)
	}
	_, err := s.Run(within(t), engine.RunRequest{
		Request: sandbox.Request{Language: "python", Code: []byte("input()"), Stdin: []byte("x")}})
	refused(t, "stdin for a context", err, sandbox.Invalid, "no input")
	if r = do(t, s, code("python", "input()")); r.Exception == nil || r.Exception.Name != "EOFError" ||
		bytes.Contains(r.Stderr.Head, []byte("<string>")) {
		t.Errorf("input: %+v, %q", r.Exception, r.Stderr.Head)
	}
}

// TestWaitingIsBounded: however many contexts a sandbox has, only so many runs wait for them. A further one is not
// accepted.
func TestWaitingIsBounded(t *testing.T) {
	const most = 64
	_, s := contextRig(t)
	asks := code("bash", "sleep 1000")
	asks.Background, asks.Request.Timeout = true, time.Hour
	start := func(name string) {
		asks.Context = name
		if _, err := s.Start(within(t), asks); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} {
		if _, err := s.CreateContext(within(t), engine.ContextRequest{Name: name, Language: "bash"}); err != nil {
			t.Fatal(err)
		}
		start(name)
	}
	eventually(t, "both contexts to be busy",
		func() bool { i := s.Info(); return i.Contexts[0].State == "busy" && i.Contexts[1].State == "busy" })
	for i := range most {
		start([]string{"a", "b"}[i%2])
	}
	_, err := s.Start(within(t), asks) // at once: the others may not wait yet
	refused(t, "one too many", err, sandbox.Busy, "wait for a context")
}
