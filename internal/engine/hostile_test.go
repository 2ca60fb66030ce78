package engine_test

import (
	"strings"
	"testing"
	"time"

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
