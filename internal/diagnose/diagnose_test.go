package diagnose_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// end is what differs between the ends in TestHints, beside their results.
type end struct {
	usage sandbox.Usage
	tasks int64
	left  int
	gone  bool // the guest
}

// TestHints: a hint explains every end but plain success, with the limit that it reached and how to raise it.
func TestHints(t *testing.T) {
	offer := diagnose.Offer{Languages: lang.All(), Max: sandbox.Limits{Pids: 200}}
	limited := sandbox.Spec{Limits: sandbox.DefaultLimits, Commands: []string{"ls", "python3"},
		Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}}
	unlimited := limited
	unlimited.Commands = nil
	// The backend limits no inodes and divides the disk among places.
	effective := sandbox.Policy{Limits: sandbox.Limits{Inodes: sandbox.Unlimited},
		Enforcers: map[sandbox.LimitName]string{sandbox.LimitDisk: "tmpfs sizes: half of it there"}}
	of := func(spec sandbox.Spec, request sandbox.Request) diagnose.Facts {
		return diagnose.Facts{Offer: offer, Request: &request, Command: "cat",
			Result: &sandbox.Result{Requested: spec}}
	}
	hints := func(f diagnose.Facts, e end, r sandbox.Result) []sandbox.Hint {
		r.Requested, r.Effective, r.Usage = f.Result.Requested, effective, e.usage
		f.Result, f.Tasks, f.Left, f.GuestGone, f.Beyond = &r, e.tasks, e.left, e.gone, [2]int64{r.Stdout.Dropped,
			r.Stderr.Dropped}
		return diagnose.Hints(&f)
	}
	x, free := of(limited, sandbox.Request{}), of(unlimited, sandbox.Request{})
	windows := free
	windows.LineEnds = func(string) bool { return true }
	fed := of(unlimited, sandbox.Request{Stdin: []byte("x")})
	fenced := of(limited, sandbox.Request{Code: []byte("\n```python\nprint(1)\n```")})
	failed := func(stderr string) sandbox.Result {
		return sandbox.Result{Status: sandbox.StatusFailed, ExitCode: 1,
			Stderr: sandbox.Captured{Head: []byte(stderr)}}
	}
	timeout := func(stderr string) sandbox.Result {
		return sandbox.Result{Status: sandbox.StatusTimeout, Stderr: sandbox.Captured{Head: []byte(stderr)}}
	}
	java, javaInBash := free, free
	for _, l := range lang.All() {
		switch l.Name {
		case "java":
			java.Language = &l
		case "bash":
			javaInBash.Language = &l
		}
	}
	notJava := "A.java:1: error: ';' expected\n1 error\nerror: compilation failed\n"
	idle := end{usage: sandbox.Usage{CPU: time.Second, Wall: 30 * time.Second}}
	child := "in _execute_child\n    raise child_exception_type()\nFileNotFoundError: [Errno 2] No such file or " +
		"directory: "
	for _, c := range []struct {
		f    diagnose.Facts
		e    end
		r    sandbox.Result
		want []string
	}{
		{java, end{}, failed(notJava), []string{"The code does not compile, so nothing ran"}},
		{javaInBash, end{}, failed(notJava), nil},
		{free, idle, timeout(""), []string{"time limit of 30s", "almost no CPU time", "If it is a server: run it in a " +
			"living sandbox", "the network: a sandbox has none"}},
		{free, idle, timeout("fork: retry: Resource temporarily unavailable"), []string{"limit of 128 processes " +
			"and threads. Raise it: --pids 200."}},
		{free, end{usage: sandbox.Usage{PidsRefused: 1}}, timeout(""), []string{"128 processes"}},
		{free, end{tasks: 128}, timeout(""), []string{"128 processes"}},
		{free, end{}, timeout(""), []string{"Do less work, or raise it: --timeout 60s."}},
		{free, end{}, sandbox.Result{Status: sandbox.StatusOutOfMemory}, []string{"limit of 512MiB and was killed.",
			"--memory 1GiB."}},
		{free, end{gone: true, usage: sandbox.Usage{OOMKills: 1}}, sandbox.Result{Status: sandbox.StatusOutOfMemory},
			[]string{"all of it, with its files"}},
		{free, end{}, sandbox.Result{Status: sandbox.StatusOutputLimit}, []string{"1MiB"}},
		{free, end{}, sandbox.Result{Status: sandbox.StatusKilled, Signal: 11}, []string{"SIGSEGV"}},
		{free, end{}, sandbox.Result{Status: sandbox.StatusFailed, ExitCode: 130, Signal: 2}, []string{"itself " +
			"with SIGINT", "KeyboardInterrupt"}},
		{free, end{}, sandbox.Result{Status: sandbox.StatusCanceled}, []string{"canceled"}},
		{free, end{}, sandbox.Result{Status: sandbox.StatusLost}, []string{"outcome is unknown"}},
		{x, end{}, sandbox.Result{Status: sandbox.StatusRejected}, []string{`"cat" is not among`, "ls, python3. " +
			"To allow it: --allow-command cat."}},
		{x, end{}, failed(child + "'jq'"), []string{"tried to execute jq", "--allow-command jq."}},
		{x, end{}, failed(child + "'/bin/sh'"), []string{"tried to execute sh", "--allow-command sh."}},
		{x, end{}, failed("main.sh: line 1: jq: command not found"), []string{"--allow-command jq."}},
		{x, end{}, failed("FileNotFoundError: [Errno 2] No such file or directory: 'ls'"), []string{"The file ls " +
			"was not found"}},
		{free, end{}, failed(child + "'jq'"), []string{"Command not found in the sandbox: jq."}},
		{free, end{}, failed("env: ‘python3\\r’: No such file or directory"), []string{"A script has Windows line ends"}},
		{free, end{}, failed("  cause: failed to create directory `/usr/local/lib/python3.11/dist-packages/x`: Read-only " +
			"file system (os error 30)"), []string{"uv pip install --system --prefix ~/.local"}},
		{free, end{}, failed("[1:1:FATAL:zygote_host_impl_linux.cc(127)] No usable sandbox! Update your kernel"),
			[]string{"Start it with --no-sandbox"}},
		{free, end{}, failed("main.sh: line 2: $'\\r': command not found"), []string{"has Windows line ends"}},
		{free, end{}, failed("sh: 1: ls\r: not found"), []string{"has Windows line ends"}},
		{windows, end{}, failed("bash: ./a.sh: cannot execute: required file not found"), []string{"./a.sh has " +
			"Windows line ends"}},
		{windows, end{}, failed("a.sh: line 9: syntax error: unexpected end of file"), []string{"a.sh has Windows"}},
		{windows, end{}, failed("sh: 1: ./a.sh: not found"), []string{"./a.sh has Windows"}},
		{free, end{}, failed("/bin/sh: 1: apt-get: not found"), []string{"apt-get cannot install anything"}},
		{free, end{}, failed("E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you " +
			"root?"), []string{"apt cannot install"}},
		{free, end{}, failed("NewConnectionError: Temporary failure in name resolution\nERROR: No matching " +
			"distribution found for x"), []string{"pip cannot install"}},
		{free, end{}, failed("npm error code EAI_AGAIN"), []string{"npm cannot install"}},
		{free, end{}, failed("ReferenceError: require is not defined in ES module scope, you can use import " +
			"instead"), []string{"write import"}},
		{free, end{}, failed(""), []string{"wrote nothing"}},
		{fenced, end{}, failed("SyntaxError: invalid syntax"), []string{"Markdown fence"}},
		{free, end{}, failed("OSError: [Errno 28] No space left on device"), []string{"take 100MiB (tmpfs sizes: " +
			"half of it there). Raise it: --disk 200MiB."}},
		{free, end{}, failed("RuntimeError: can't start new thread"), []string{"128 processes"}},
		{free, end{usage: sandbox.Usage{PidsRefused: 3}}, failed("terminate called"), []string{"128 processes"}},
		{free, end{}, failed("curl: (6) Could not resolve host: x"), []string{"no network"}},
		{free, end{}, failed("ModuleNotFoundError: No module named 'x'"), []string{"The module x is not installed",
			"cannot be installed"}},
		{free, end{}, failed("FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'"),
			[]string{"data.csv was not found", "--file PATH"}},
		{free, end{}, failed("FileNotFoundError: [Errno 2] No such file or directory: '/mnt/data/x.csv'"),
			[]string{"no /mnt/data/x.csv", "use /workspace/x.csv"}},
		{free, end{}, failed("OSError: [Errno 30] Read-only file system: '/mnt'"), []string{"Only /workspace",
			"use /workspace/mnt"}},
		{free, end{}, failed("touch: cannot touch '/etc/x': Read-only file system"), []string{"Only /workspace",
			"use /workspace/x"}},
		{free, end{}, failed("Error: ENOENT: no such file or directory, open '/mnt/data/x'"), []string{"use " +
			"/workspace/x"}},
		{free, end{}, failed("FileNotFoundError: [Errno 2] No such file or directory: '/mnt/Do as I say'"),
			[]string{"A file was not found"}},
		{free, end{}, failed("EOFError: EOF when reading a line"), []string{"stdin, which is empty", "--stdin FILE"}},
		{free, end{}, failed("OSError: [Errno 24] Too many open files"), []string{"1024 open files"}},
		{free, end{left: 2}, sandbox.Result{Status: sandbox.StatusSucceeded}, []string{"2 background processes " +
			"were still running"}},
		{free, end{usage: sandbox.Usage{OOMKills: 1}}, sandbox.Result{Status: sandbox.StatusSucceeded},
			[]string{"ended 1 process of"}},
		{free, end{}, sandbox.Result{Status: sandbox.StatusSucceeded, Stdout: sandbox.Captured{Dropped: 2048}},
			[]string{"2KiB in the middle"}},
	} {
		got := wording.CommandLine.Hint(hints(c.f, c.e, c.r))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s, %q: %q does not say %q", c.r.Status, c.r.Stderr.Head, got, want)
			}
		}
		if strings.Contains(got, "Do as I say") {
			t.Errorf("the program's own words are in the hint: %q", got)
		}
	}
	if got := hints(free, end{}, sandbox.Result{Status: sandbox.StatusSucceeded}); got != nil {
		t.Errorf("a plain success is explained: %+v", got)
	}
	for _, c := range []struct {
		f diagnose.Facts
		r sandbox.Result
	}{{free, failed("Traceback (most recent call last):\nZeroDivisionError: division by zero")}, {free, failed("boom")},
		{fed, failed("EOFError: EOF when reading a line")}} {
		if got := hints(c.f, end{}, c.r); len(got) != 0 {
			t.Errorf("stderr says all of %q, and the hints are %+v", c.r.Stderr.Head, got)
		}
	}
	drawn := sandbox.Result{Status: sandbox.StatusSucceeded, Stderr: sandbox.Captured{Head: []byte(
		"x.py:1: UserWarning: Glyph 128512 (\\N{GRINNING FACE}) missing from current font.")}}
	if got := hints(free, end{}, drawn); len(got) != 1 || got[0] != (sandbox.HintNoFont{Package: "fonts-symbola"}) {
		t.Errorf("letters without a font: %+v", got)
	}
	stopped := free
	stopped.Signaled, stopped.Found = true, []sandbox.Hint{sandbox.HintStateKept}
	if got := hints(stopped, end{}, failed("KeyboardInterrupt")); len(got) != 1 || got[0] != sandbox.HintStateKept {
		t.Errorf("an interrupted run: %+v", got)
	}
	free.Living = true
	if got := hints(free, end{}, failed("curl: (6) Could not resolve host: "+
		"x")); len(got) != 1 || got[0] != (sandbox.HintNoNetwork{Host: "x", Living: true}) {
		t.Errorf("a living sandbox without a network: %+v", got)
	}
	if got := hints(free, end{left: 2}, sandbox.Result{Status: sandbox.StatusSucceeded}); got != nil {
		t.Errorf("processes that run on in a living sandbox are reported as killed: %+v", got)
	}
}
