package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/plan"
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
		{"exit 137 of a shell whose child died for want of memory", outcome{cause: causeExit, oom: 1, exited: guest.Exited{Code: 137}},
			sandbox.StatusOutOfMemory},
		{"SIGKILL by the kernel for want of memory", outcome{cause: causeExit, oom: 1, exited: guest.Exited{Code: -1, Signal: 9}},
			sandbox.StatusOutOfMemory},
		{"SIGKILL from elsewhere", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 9}}, sandbox.StatusKilled},
		{"SIGSEGV", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 11}}, sandbox.StatusKilled},
		{"SIGINT, which is its own", outcome{cause: causeExit, exited: guest.Exited{Code: -1, Signal: 2}}, sandbox.StatusFailed},
		{"no such program", outcome{cause: causeNotStarted, notStarted: sandbox.Hint{ExitCode: 127}}, sandbox.StatusFailed},
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
		if test.o.cause != causeExit && test.o.cause != causeNotStarted && code != -1 {
			t.Errorf("%s: exit code %d", test.name, code)
		}
		if test.o.cause == causeRejected && signal != 0 {
			t.Errorf("%s: signal %d, though nothing ran", test.name, signal)
		}
	}
}

// boundBox is a box of a backend that limits no inodes and divides the disk among places.
type boundBox struct{ sandbox.Box }

func (boundBox) Effective() sandbox.Policy {
	return sandbox.Policy{Limits: sandbox.Limits{Inodes: sandbox.Unlimited}, Enforcers: map[sandbox.LimitName]string{sandbox.LimitDisk: "tmpfs sizes: half of it there"}}
}

// TestHints: a hint explains every end but plain success, with the limit that it reached and how to raise it.
func TestHints(t *testing.T) {
	l := &live{box: boundBox{}, engine: &Engine{config: Config{Languages: lang.All(), Max: sandbox.Limits{Pids: 200}}}}
	limited := sandbox.Spec{Limits: sandbox.DefaultLimits, Commands: []string{"ls", "python3"}, Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}}
	unlimited := limited
	unlimited.Commands = nil
	of := func(spec sandbox.Spec, request sandbox.Request) *execution {
		return &execution{live: l, output: newOutput(1<<20, nil), job: job{Execution: &plan.Execution{Argv: []string{"cat"}, Spec: spec, Request: request}}}
	}
	x, free := of(limited, sandbox.Request{}), of(unlimited, sandbox.Request{})
	fed := of(unlimited, sandbox.Request{Stdin: []byte("x")})
	fenced := of(limited, sandbox.Request{Code: []byte("\n```python\nprint(1)\n```")})
	failed := func(stderr string) sandbox.Result {
		return sandbox.Result{Status: sandbox.StatusFailed, ExitCode: 1, Stderr: sandbox.Captured{Head: []byte(stderr)}}
	}
	timeout := func(stderr string) sandbox.Result {
		return sandbox.Result{Status: sandbox.StatusTimeout, Stderr: sandbox.Captured{Head: []byte(stderr)}}
	}
	idle := outcome{usage: sandbox.Usage{CPU: time.Second, Wall: 30 * time.Second}}
	child := "in _execute_child\n    raise child_exception_type()\nFileNotFoundError: [Errno 2] No such file or directory: "
	for _, c := range []struct {
		x    *execution
		o    outcome
		r    sandbox.Result
		want []string
	}{
		{free, idle, timeout(""), []string{"time limit of 30s", "almost no CPU time", "waited for input: there was none; give it with -i or --stdin FILE", "the network: a sandbox has none"}},
		{fed, idle, timeout(""), []string{"almost no CPU time. If it waited for the network"}},
		{free, idle, timeout("fork: retry: Resource temporarily unavailable"), []string{"limit of 128 processes and threads. Raise it: --pids 200."}},
		{free, outcome{usage: sandbox.Usage{PidsRefused: 1}}, timeout(""), []string{"128 processes"}},
		{free, outcome{exited: guest.Exited{Tasks: 128}}, timeout(""), []string{"128 processes"}},
		{free, outcome{}, timeout(""), []string{"Do less work, or raise it: --timeout 60s."}},
		{free, outcome{}, sandbox.Result{Status: sandbox.StatusOutOfMemory}, []string{"limit of 512MiB and was killed by the kernel", "--memory 1GiB."}},
		{free, outcome{cause: causeLost, oom: 1}, sandbox.Result{Status: sandbox.StatusOutOfMemory}, []string{"all of it, with its files"}},
		{free, outcome{}, sandbox.Result{Status: sandbox.StatusOutputLimit}, []string{"1MiB"}},
		{free, outcome{}, sandbox.Result{Status: sandbox.StatusKilled, Signal: 11}, []string{"SIGSEGV"}},
		{free, outcome{}, sandbox.Result{Status: sandbox.StatusFailed, ExitCode: 130, Signal: 2}, []string{"itself with SIGINT", "KeyboardInterrupt"}},
		{free, outcome{}, sandbox.Result{Status: sandbox.StatusCanceled}, []string{"canceled"}},
		{free, outcome{}, sandbox.Result{Status: sandbox.StatusLost}, []string{"outcome is unknown"}},
		{x, outcome{}, sandbox.Result{Status: sandbox.StatusRejected}, []string{`"cat" is not among`, "ls, python3. To allow it: --allow-command cat."}},
		{x, outcome{}, failed(child + "'jq'"), []string{"tried to execute jq", "--allow-command jq."}},
		{x, outcome{}, failed(child + "'/bin/sh'"), []string{"tried to execute sh", "--allow-command sh."}},
		{x, outcome{}, failed("main.sh: line 1: jq: command not found"), []string{"--allow-command jq."}},
		{x, outcome{}, failed("FileNotFoundError: [Errno 2] No such file or directory: 'ls'"), []string{"The file ls was not found"}},
		{free, outcome{}, failed(child + "'jq'"), []string{"Command not found in the sandbox: jq."}},
		{free, outcome{}, failed("/bin/sh: 1: apt-get: not found"), []string{"apt-get cannot install anything"}},
		{free, outcome{}, failed("E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?"), []string{"apt cannot install"}},
		{free, outcome{}, failed("NewConnectionError: Temporary failure in name resolution\nERROR: No matching distribution found for x"), []string{"pip cannot install"}},
		{free, outcome{}, failed("npm error code EAI_AGAIN"), []string{"npm cannot install"}},
		{free, outcome{}, failed("ReferenceError: require is not defined in ES module scope, you can use import instead"), []string{"write import"}},
		{free, outcome{}, failed("boom"), []string{"exit code 1; stderr says why."}},
		{free, outcome{}, failed(""), []string{"wrote nothing"}},
		{fenced, outcome{}, failed("SyntaxError: invalid syntax"), []string{"Markdown fence"}},
		{free, outcome{}, failed("OSError: [Errno 28] No space left on device"), []string{"take 100MiB (tmpfs sizes: half of it there). Raise it: --disk 200MiB."}},
		{free, outcome{}, failed("RuntimeError: can't start new thread"), []string{"128 processes"}},
		{free, outcome{usage: sandbox.Usage{PidsRefused: 3}}, failed("terminate called"), []string{"128 processes"}},
		{free, outcome{}, failed("curl: (6) Could not resolve host: x"), []string{"no network"}},
		{free, outcome{}, failed("ModuleNotFoundError: No module named 'x'"), []string{"The module x is not there", "cannot be installed"}},
		{free, outcome{}, failed("FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'"), []string{"data.csv was not found", "--file PATH"}},
		{free, outcome{}, failed("FileNotFoundError: [Errno 2] No such file or directory: '/mnt/data/x.csv'"), []string{"no /mnt/data/x.csv", "use /workspace/x.csv"}},
		{free, outcome{}, failed("OSError: [Errno 30] Read-only file system: '/mnt'"), []string{"Only /workspace", "use /workspace/mnt"}},
		{free, outcome{}, failed("touch: cannot touch '/etc/x': Read-only file system"), []string{"Only /workspace", "use /workspace/x"}},
		{free, outcome{}, failed("Error: ENOENT: no such file or directory, open '/mnt/data/x'"), []string{"use /workspace/x"}},
		{free, outcome{}, failed("FileNotFoundError: [Errno 2] No such file or directory: '/mnt/Do as I say'"), []string{"A file was not found"}},
		{free, outcome{}, failed("EOFError: EOF when reading a line"), []string{"stdin, which is empty", "--stdin FILE"}},
		{fed, outcome{}, failed("EOFError: EOF when reading a line"), []string{"stderr says why."}},
		{free, outcome{}, failed("OSError: [Errno 24] Too many open files"), []string{"1024 open files"}},
		{free, outcome{exited: guest.Exited{Left: 2}}, sandbox.Result{Status: sandbox.StatusSucceeded}, []string{"2 background processes were still running"}},
		{free, outcome{oom: 1}, sandbox.Result{Status: sandbox.StatusSucceeded}, []string{"kernel killed 1 process of"}},
		{free, outcome{}, sandbox.Result{Status: sandbox.StatusSucceeded, Stdout: sandbox.Captured{Dropped: 2048}}, []string{"2KiB in the middle"}},
	} {
		got := answer.CommandLine.Hint(c.x.hints(&c.o, &c.r))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s, %q: %q does not say %q", c.r.Status, c.r.Stderr.Head, got, want)
			}
		}
		if strings.Contains(got, "Do as I say") {
			t.Errorf("the program's own words are in the hint: %q", got)
		}
	}
	if got := free.hints(&outcome{}, &sandbox.Result{Status: sandbox.StatusSucceeded}); got != nil {
		t.Errorf("a plain success is explained: %+v", got)
	}
	free.stays = &Execution{}
	unresolved := failed("curl: (6) Could not resolve host: x")
	if got := free.hints(&outcome{}, &unresolved); len(got) != 1 || !got[0].Living {
		t.Errorf("a living sandbox without a network: %+v", got)
	}
	if got := free.hints(&outcome{exited: guest.Exited{Left: 2}}, &sandbox.Result{Status: sandbox.StatusSucceeded}); got != nil {
		t.Errorf("what runs on in a living sandbox is told as killed: %+v", got)
	}
}
