package engine_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestDriverThatDoesNotRead: the time limit holds also for code that the interpreter never takes.
func TestDriverThatDoesNotRead(t *testing.T) {
	_, s := contextRig(t)
	do(t, s, code("python", "import os; keep = os.dup(250); r, w = os.pipe(); os.dup2(r, 250)"))
	large := code("python", "1"+strings.Repeat(" ", 2<<20))
	large.Request.Timeout = 300 * time.Millisecond
	if r := do(t, s, large); r.Status != sandbox.StatusTimeout || !hasHint(r, sandbox.HintStateLost) {
		t.Errorf("%s, %v", r.Status, r.Hints)
	}
	if r := do(t, s, code("python", "6*7")); value(r) != "42" {
		t.Errorf("the next execution: %s, %q", r.Status, r.Stderr.Head)
	}
}

// TestRememberedExecutions: executions that ended are remembered without what they were given and what they wrote.
func TestRememberedExecutions(t *testing.T) {
	const size, count = 4 << 20, 8
	rig := newRig(t, engine.Config{})
	s := rig.make(t, engine.Living{Spec: sandbox.Spec{Limits: sandbox.Limits{OutputBytes: 2 * size}}})
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	for i := range count {
		asks := command("head", "-c", fmt.Sprint(size), "/dev/zero")
		asks.Request.Files = []sandbox.File{{Path: "f", Data: make([]byte, size)}}
		asks.Detached = i%2 == 0
		x, err := s.Start(within(t), asks)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := x.Wait(within(t)); err != nil || r.Status != sandbox.StatusSucceeded {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if now := held(); now > before+count*size {
		t.Errorf("%d remembered executions hold %s", count, sandbox.FormatBytes(int64(now-before)))
	}
	runtime.KeepAlive(s)
}
