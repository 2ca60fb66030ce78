package engine

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestStatus is the table of what an end is called.
func TestStatus(t *testing.T) {
	for _, test := range []struct {
		name string
		o    outcome
		want sandbox.Status
	}{
		{"exit 0", outcome{cause: causeExit}, sandbox.StatusSucceeded},
		{"exit 0, a child died for want of memory", outcome{cause: causeExit, oom: 1}, sandbox.StatusSucceeded},
		{"exit 1", outcome{cause: causeExit, exited: guest.Exited{Code: 1}}, sandbox.StatusFailed},
		{"exit 137", outcome{cause: causeExit, exited: guest.Exited{Code: 137}}, sandbox.StatusFailed},
		{"exit 137 of a shell whose child died for want of memory",
			outcome{cause: causeExit, oom: 1, exited: guest.Exited{Code: 137}},
			sandbox.StatusOutOfMemory},
		{"SIGKILL by the kernel for want of memory",
			outcome{cause: causeExit, oom: 1, exited: guest.Exited{Code: -1, Signal: 9}},
			sandbox.StatusOutOfMemory},
		{"SIGKILL from elsewhere", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 9}},
			sandbox.StatusKilled},
		{"SIGSEGV", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 11}}, sandbox.StatusKilled},
		{"SIGINT, which is its own", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 2}},
			sandbox.StatusFailed},
		{"no such program", outcome{cause: causeNotStarted, notStarted: sandbox.HintNoFile{}}, sandbox.StatusFailed},
		{"a caller's signal", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 9, Signaled: true}},
			sandbox.StatusCanceled},
		{"the guest's deadline", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 9, TimedOut: true}},
			sandbox.StatusTimeout},
		{"the guest's deadline, out of memory too",
			outcome{cause: causeExit, oom: 2, exited: guest.Exited{Code: -1, Signal: 9, TimedOut: true}},
			sandbox.StatusTimeout},
		{"the host's deadline", outcome{cause: causeDeadline}, sandbox.StatusTimeout},
		{"canceled", outcome{cause: causeCanceled}, sandbox.StatusCanceled},
		{"runaway output", outcome{cause: causeOutput}, sandbox.StatusOutputLimit},
		{"a program that is not allowed", outcome{cause: causeRejected}, sandbox.StatusRejected},
		{"the guest is gone", outcome{cause: causeLost}, sandbox.StatusLost},
		{"the guest went for want of memory", outcome{cause: causeLost, oom: 1}, sandbox.StatusOutOfMemory},
	} {
		if got := test.o.status(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		code, signal := test.o.exit()
		if test.o.cause != causeExit && test.o.cause != causeNotStarted && code != -1 {
			t.Errorf("%s: exit code %d", test.name, code)
		}
		if test.o.cause == causeRejected && signal != 0 {
			t.Errorf("%s: signal %d, though nothing ran", test.name, signal)
		}
	}
}
