package plan

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/lang/bash"
	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPlainText: no program sees a byte order mark, and Bash no carriage return before a line feed, unless most lines
// have none.
func TestPlainText(t *testing.T) {
	for _, c := range []struct {
		lang       *sandbox.Language
		text, want string
	}{
		{&bash.Language, "if :\r\nthen\r\n:\nfi\r\n", "if :\nthen\n:\nfi\n"},
		{&bash.Language, "\ufeffecho\r\n", "echo\n"},
		{&bash.Language, "cat <<E\nA: b\r\nE\n", "cat <<E\nA: b\r\nE\n"},
		{&python.Language, "\ufeffprint()\r\n", "print()\r\n"},
	} {
		if got := string(plainText(c.lang, []byte(c.text))); got != c.want {
			t.Errorf("%s: %q became %q", c.lang.Name, c.text, got)
		}
	}
}

// TestRaise: no fix is a limit over the operator's maximum.
func TestRaise(t *testing.T) {
	language := sandbox.Language{Name: "x", LeastPids: 7}
	for most, fixes := range map[int64]int{0: 1, 7: 1, 6: 0} {
		r := Rules{Max: sandbox.Limits{Pids: most, MemoryBytes: most}}
		for _, err := range []error{r.CheckPids(&language, sandbox.Limits{Pids: 4}),
			r.CheckDisk(sandbox.Limits{MemoryBytes: 4, DiskBytes: 7})} {
			var e *sandbox.Error
			if !errors.As(err, &e) || len(e.Fixes) != fixes || (e.Fix == "") != (fixes == 1) {
				t.Errorf("with a maximum of %d: %v", most, err)
			}
		}
	}
}

// TestCheckChange: the memory of a sandbox cannot become less than its disk, which cannot change.
func TestCheckChange(t *testing.T) {
	spec := sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 64 << 20, DiskBytes: 32 << 20}}
	for size, ok := range map[int64]bool{0: true, 32 << 20: true, 31 << 20: false} {
		if err := new(Rules).CheckChange(sandbox.Limits{MemoryBytes: size}, spec); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestCallWait: waiting for calls stops the clock of a run for no longer than the operator's maximum of a time limit.
func TestCallWait(t *testing.T) {
	r := Rules{Max: sandbox.Limits{Timeout: 3 * time.Second}}
	for asked, want := range map[time.Duration]time.Duration{0: 3 * time.Second, time.Second: time.Second,
		3*time.Second + 1: -1} {
		calls := sandbox.Calls{Limits: sandbox.CallLimits{Wait: asked}}
		err := r.CheckCalls(&calls, &python.Language)
		if (err == nil) != (want > 0) || err == nil && calls.Limits.Wait != want {
			t.Errorf("%v became %v: %v", asked, calls.Limits.Wait, err)
		}
	}
	var free sandbox.Calls
	if err := new(Rules).CheckCalls(&free, &python.Language); err != nil || free.Limits.Wait != 0 {
		t.Errorf("without a maximum: %v, %v", free.Limits.Wait, err)
	}
}

// TestManyVariables: each plan of a run merges the variables of its sandbox and its own, so their number is bounded.
func TestManyVariables(t *testing.T) {
	many := make([]string, MaxVariables+1)
	for i := range many {
		many[i] = fmt.Sprintf("A%d=", i)
	}
	_, ofBox := (&Rules{}).Box(sandbox.Spec{Env: many})
	_, ofRun := (&Rules{}).Run(sandbox.Request{Command: []string{"true"}, Env: many}, sandbox.Spec{})
	if sandbox.KindOf(ofBox) != sandbox.TooLarge || sandbox.KindOf(ofRun) != sandbox.TooLarge {
		t.Errorf("a sandbox: %v, a run: %v", ofBox, ofRun)
	}
}
