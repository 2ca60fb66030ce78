package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/sandbox"
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
		{"exit 137 of a shell whose child died for want of memory", outcome{cause: causeExit, oom: 1, exited: guest.Exited{Code: 137}},
			sandbox.StatusOutOfMemory},
		{"SIGKILL by the kernel for want of memory", outcome{cause: causeExit, oom: 1, exited: guest.Exited{Code: -1, Signal: 9}},
			sandbox.StatusOutOfMemory},
		{"SIGKILL from elsewhere", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 9}}, sandbox.StatusKilled},
		{"SIGSEGV", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 11}}, sandbox.StatusKilled},
		{"a caller's signal", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 9, Signaled: true}}, sandbox.StatusCanceled},
		{"the guest's deadline", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 9, TimedOut: true}}, sandbox.StatusTimeout},
		{"the guest's deadline, out of memory too", outcome{cause: causeExit, oom: 2, exited: guest.Exited{Code: -1, Signal: 9, TimedOut: true}},
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
		if test.o.cause != causeExit && code != -1 {
			t.Errorf("%s: exit code %d", test.name, code)
		}
		if test.o.cause == causeRejected && signal != 0 {
			t.Errorf("%s: signal %d, though nothing ran", test.name, signal)
		}
	}
}

// boundBox is a box of a backend that bounds no inodes and shares the disk out.
type boundBox struct{ sandbox.Box }

func (boundBox) Effective() sandbox.Policy {
	return sandbox.Policy{Limits: sandbox.Limits{Inodes: sandbox.Unlimited}, Enforcers: map[sandbox.LimitName]string{sandbox.LimitDisk: "tmpfs sizes: half of it there"}}
}

// TestHints: every end that is not plain success is explained, with the value of the limit that it met.
func TestHints(t *testing.T) {
	x := &execution{plan: &plan{Plan: Plan{Argv: []string{"cat"}, Spec: sandbox.Spec{Limits: sandbox.DefaultLimits, Commands: []string{"ls"},
		Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}}}}, live: &live{box: boundBox{}}}
	stderr := func(s string) *sandbox.Result {
		return &sandbox.Result{Status: sandbox.StatusFailed, ExitCode: 1, Stderr: sandbox.Captured{Head: []byte(s)}}
	}
	fenced := &execution{plan: &plan{Plan: x.Plan, request: sandbox.Request{Code: []byte("\n```python\nprint(1)\n```")}}}
	if got := hint(fenced, &outcome{}, stderr("SyntaxError: invalid syntax")); !strings.Contains(got, "Markdown fence") {
		t.Errorf("of code in a fence: %s", got)
	}
	waited := &outcome{usage: sandbox.Usage{CPU: time.Second, Wall: 30 * time.Second}}
	fed := &execution{plan: &plan{Plan: x.Plan, request: sandbox.Request{Stdin: []byte("x")}}}
	refused := sandbox.Captured{Head: []byte("main.sh: fork: retry: Resource temporarily unavailable\n")}
	for _, c := range []struct {
		x    *execution
		r    sandbox.Result
		want string
	}{
		{x, sandbox.Result{}, "almost no CPU time. If it waited for input or for the network: there is neither here."},
		{fed, sandbox.Result{}, "almost no CPU time. If it waited for the network: there is none here."},
		{x, sandbox.Result{Stderr: refused}, "was killed. It may have reached its limit of 128 processes"},
		{x, sandbox.Result{Stdout: refused}, "was killed. It may have reached its limit of 128 processes"},
	} {
		c.r.Status = sandbox.StatusTimeout
		if got := hint(c.x, waited, &c.r); !strings.HasSuffix(got, c.want) && !strings.Contains(got, c.want+" ") {
			t.Errorf("of a program that waited: %q does not say %q", got, c.want)
		}
	}
	for want, r := range map[string]*sandbox.Result{
		"30s":       {Status: sandbox.StatusTimeout},
		"512MiB":    {Status: sandbox.StatusOutOfMemory},
		"1MiB":      {Status: sandbox.StatusOutputLimit},
		"SIGSEGV":   {Status: sandbox.StatusKilled, Signal: 11},
		"signal 40": {Status: sandbox.StatusKilled, Signal: 40},
		"canceled":  {Status: sandbox.StatusCanceled},
		`"cat" is not among the commands that the policy allows: ls.`: {Status: sandbox.StatusRejected},
		"write import":  stderr("ReferenceError: require is not defined in ES module scope, you can use import instead"),
		"unknown":       {Status: sandbox.StatusLost},
		"exit code 1":   stderr("boom"),
		"wrote nothing": stderr(""),
		"take 100MiB (tmpfs sizes: half of it there).": stderr("OSError: [Errno 28] No space left on device"),
		"128 processes":               stderr("RuntimeError: can't start new thread"),
		"no network":                  stderr("curl: (6) Could not resolve host: x"),
		"file of yours, send":         stderr("ModuleNotFoundError: No module named 'x'"),
		"cannot be installed":         stderr("error: externally-managed-environment"),
		"were sent along":             stderr("FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'"),
		"stdin":                       stderr("EOFError: EOF when reading a line"),
		"1024 open files":             stderr("OSError: [Errno 24] Too many open files"),
		"Only /workspace":             stderr("Read-only file system"),
		"2 files were not handed":     {Status: sandbox.StatusSucceeded, Skipped: []sandbox.Skipped{{Reason: "a"}, {Reason: "b"}}},
		"2KiB in the middle":          {Status: sandbox.StatusSucceeded, Stdout: sandbox.Captured{Dropped: 2048}},
		"kernel killed 1 process of ": {Status: sandbox.StatusSucceeded},
	} {
		o := &outcome{}
		if want[0] == 'k' {
			o.oom = 1
		}
		if got := hint(x, o, r); !strings.Contains(got, want) {
			t.Errorf("%s: %q does not say %q", r.Status, got, want)
		}
	}
	if got := hint(x, &outcome{cause: causeLost, oom: 1}, &sandbox.Result{Status: sandbox.StatusOutOfMemory}); !strings.Contains(got, "all of it, with its files") {
		t.Errorf("of a sandbox that ended for want of memory: %q", got)
	}
	left := []sandbox.Skipped{{Path: "big", Reason: "it is larger than 16MiB, the most of one file that is handed back"},
		{Path: "d/l", Reason: "it is a symbolic link"}, {Path: "Do as I say", Reason: "it could not be read"},
		{Path: strings.Repeat("a", hintedName+1), Reason: "it is a pipe"}, {Reason: "the files could not be read"}, {Path: "f", Reason: "x"}}
	want := "6 files were not handed back: big (larger than 16MiB), d/l (a symbolic link), a file (could not be read), a file (a pipe), " +
		"the files could not be read, and 1 more."
	if got := hint(x, &outcome{}, &sandbox.Result{Status: sandbox.StatusSucceeded, Skipped: left}); got != want {
		t.Errorf("of files that were left out: %q", got)
	}
	if got := hint(x, &outcome{}, &sandbox.Result{Status: sandbox.StatusSucceeded}); got != "" {
		t.Errorf("a plain success is explained: %q", got)
	}
}
