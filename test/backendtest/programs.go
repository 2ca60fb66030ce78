package backendtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// programCases test the start of a program as the program sees it, and the report of its end.
var programCases = []testCase{
	{"exit codes", "an exit code is reported unchanged, and any but 0 is a failure", testExitCodes},
	{"signals", "a death by signal differs from exit code 128+n", testSignals},
	{"output", "each stream is returned byte for byte, in order", testOutput},
	{"streaming", "output comes while the program runs, and the streamed bytes are those of the result", testStreaming},
	{"stdin", "stdin arrives complete, and ends; without any it is empty", testStdin},
	{"environment", "nothing of the server's environment is inherited", testEnvironment},
	{"working directory", "the working directory is the workspace, the requested one, or an error",
		testWorkingDirectory},
	{"user", "the code is the user of the spec, in no other groups", testUser},
	{"descriptors", "the code has descriptors 0, 1 and 2 and no other", testDescriptors},
	{"terminal", "a process may have a terminal of the requested size", testTerminal},
	{"channel", "a process may talk to the host beside its output, in order with it", testChannel},
	{"ports", "the host reaches what listens on loopback in the sandbox, in whatever way, and in no other sandbox",
		testPorts},
	{"timeout", "the deadline ends every process, even a stopped one or one that ignores signals", testTimeout},
	{"left behind", "a run ends with its main process; processes left behind neither delay it nor survive",
		testLeftBehind},
	{"cancel", "a run whose caller disconnects ends at once", testCancel},
	{"output limit", "over its limit a stream keeps head and tail; a runaway is ended", testOutputLimit},
	{"nothing to start", "a missing command fails as in a shell, a missing language as an error", testNothingToStart},
	{"fresh", "a run sees nothing of the runs before it", testFresh},
	{"many processes", "pipelines, subshells and awaited children work", testManyProcesses},
	{"sharing", "processes share semaphores, and a database with a write-ahead log", testSharing},
}

func testExitCodes(t *testing.T, s *suite) {
	for _, c := range []int{0, 1, 3, 126, 127, 137, 255, 256 + 3} {
		r := s.run(t, sh(fmt.Sprintf("exit %d", c)))
		want := sandbox.StatusFailed
		if c == 0 {
			want = sandbox.StatusSucceeded
		}
		wantStatus(t, r, want)
		if r.ExitCode != c%256 || r.Signal != 0 {
			t.Errorf("exit %d: code %d, signal %d", c, r.ExitCode, r.Signal)
		}
		if want == sandbox.StatusFailed && len(r.Hints) == 0 {
			t.Errorf("exit %d: no hint", c)
		}
	}
}

func testSignals(t *testing.T, s *suite) {
	for _, signal := range []int{6, 9, 11, 15} {
		r := s.run(t, sh(fmt.Sprintf("kill -%d $$; sleep 5", signal)))
		wantStatus(t, r, sandbox.StatusKilled)
		if r.Signal != signal || r.ExitCode != -1 {
			t.Errorf("signal %d: code %d, signal %d", signal, r.ExitCode, r.Signal)
		}
	}
}

func testOutput(t *testing.T, s *suite) {
	r := s.run(t, sh(`printf 'a\0b\xff\n'; printf 'err' >&2; printf '\xc3'; printf '\xa4'`))
	wantOutput(t, r, "a\x00b\xff\nä")
	if got := string(r.Stderr.Head); got != "err" {
		t.Errorf("stderr %q", got)
	}
	r = s.run(t, sh(`for i in {1..20000}; do echo $i; done`))
	var want strings.Builder
	for i := 1; i <= 20000; i++ {
		fmt.Fprintln(&want, i)
	}
	wantOutput(t, r, want.String())
}

func testStreaming(t *testing.T, s *suite) {
	var streamed [3]bytes.Buffer
	first := make(chan struct{})
	// The program waits for a file that is made once its first line was seen, so that line came before the end.
	dir := hostDir(t)
	r := sh(`echo first; until [ -e go ]; do sleep 0.01; done; echo second; echo third >&2`)
	r.Spec.Workspace = dir
	r.Request.Output = func(stream sandbox.Stream, data []byte) {
		if stream == sandbox.Stdout && streamed[stream].Len() == 0 {
			close(first)
		}
		streamed[stream].Write(data)
	}
	go func() {
		<-first
		if err := os.WriteFile(dir+"/go", nil, 0o666); err != nil {
			t.Error(err)
		}
	}()
	result := s.run(t, r)
	wantOutput(t, result, "first\nsecond\n")
	if got := streamed[sandbox.Stdout].String(); got != string(result.Stdout.Head) {
		t.Errorf("streamed %q", got)
	}
	if got := streamed[sandbox.Stderr].String(); got != "third\n" {
		t.Errorf("streamed %q to stderr", got)
	}
}

func testStdin(t *testing.T, s *suite) {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10) // 1 MiB, many times what a pipe holds
	r := sh("sha256sum")
	r.Request.Stdin = data
	wantOutput(t, s.run(t, r), sumLine(data))
	r = sh("head -c 3")
	r.Request.Stdin = data
	wantOutput(t, s.run(t, r), "012")
	wantOutput(t, s.run(t, sh("cat; echo end")), "end\n")
	r = sh("exec <&-; echo closed")
	r.Request.Stdin = data
	wantOutput(t, s.run(t, r), "closed\n")
}

func testEnvironment(t *testing.T, s *suite) {
	secret := canary()
	t.Setenv("FUMEHOOD_TEST_SECRET", secret)
	e := s.newEngine(t, engine.Config{})
	r := sh("cat /proc/$$/environ | tr '\\0' '\\n'")
	r.Request.Env = []string{"GIVEN=yes", "LANG=xx", "MULTI=a\nb"}
	result, err := e.Run(within(t), r)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, result, sandbox.StatusSucceeded)
	out := string(result.Stdout.Head)
	if strings.Contains(out, secret) {
		t.Error("the environment of the server is inherited")
	}
	allowed := []string{"GIVEN", "MULTI", "_", "PWD", "SHLVL", "OLDPWD", guest.EnvExecution}
	for _, kv := range sandbox.DefaultEnv {
		name, _, _ := strings.Cut(kv, "=")
		allowed = append(allowed, name)
	}
	for line := range strings.Lines(out) {
		if name, _, found := strings.Cut(line, "="); found && !slices.Contains(allowed, name) {
			t.Errorf("a variable from nowhere: %s", line)
		}
	}
	for _, want := range []string{"GIVEN=yes\n", "LANG=xx\n", "MULTI=a\nb\n", "HOME=" + sandbox.Home + "\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing from %q", want, out)
		}
	}
}

func testWorkingDirectory(t *testing.T, s *suite) {
	wantOutput(t, s.run(t, sh("pwd; touch made && echo ok")), sandbox.Workspace+"\nok\n")
	wantOutput(t, s.run(t, sh(`touch "$HOME/x" "$TMPDIR/x" && echo ok`)), "ok\n")
	r := sh("pwd; cat x")
	r.Request.Dir = "sub/dir"
	r.Request.Files = []sandbox.File{{Path: "sub/dir/x", Data: []byte("in")}}
	wantOutput(t, s.run(t, r), sandbox.Workspace+"/sub/dir\nin")
	for _, dir := range []string{"nowhere", "/nowhere", "/etc/passwd", "/proc/self/fd/3", "/proc/self/cwd", "/sys",
		"../proc/1"} {
		r := sh("pwd")
		r.Request.Dir = dir
		if _, err := s.engine.Run(within(t), r); sandbox.KindOf(err) != sandbox.Invalid || err == nil {
			t.Errorf("dir %q: %v, want Invalid", dir, err)
		}
	}
}

func testUser(t *testing.T, s *suite) {
	wantOutput(t, s.run(t, sh("id -u; id -g; cat /proc/self/loginuid >/dev/null 2>&1; [ -O . ] && echo mine")),
		"1000\n1000\nmine\n")
}

func testDescriptors(t *testing.T, s *suite) {
	// ls opens the directory itself as the lowest free descriptor: 3.
	wantOutput(t, s.run(t, sh("exec ls /proc/self/fd")), "0\n1\n2\n3\n")
}

func testTerminal(t *testing.T, s *suite) {
	c := dial(t, s.create(t, spec()))
	p, err := c.Start(within(t), guest.Start{ID: string(sandbox.NewID()),
		Argv: []string{"bash", "-c", "test -t 0 && test -t 1 && stty size"},
		Env:  sandbox.DefaultEnv, Dir: "/", User: sandbox.DefaultUser, TTY: true, Rows: 33, Cols: 77})
	if err != nil {
		t.Fatal(err)
	}
	if out, exited := finish(t, p); strings.TrimSpace(out) != "33 77" || exited.Code != 0 {
		t.Errorf("on a terminal: %q, code %d", out, exited.Code)
	}
}

func testTimeout(t *testing.T, s *suite) {
	for _, script := range []string{
		"sleep 1000",
		"trap '' TERM INT HUP QUIT; while :; do sleep 1000; done",
		"kill -STOP $$",
		"setsid bash -c 'sleep 1000' & setsid sleep 1000; sleep 1000",
		"exec >&- 2>&-; sleep 1000",
		"while :; do echo drip; sleep 0.01; done",
	} {
		r := sh(script)
		r.Request.Timeout = 300 * time.Millisecond
		result := s.run(t, r)
		wantStatus(t, result, sandbox.StatusTimeout)
		if result.Timings.Run < r.Request.Timeout {
			t.Errorf("%s: ended after %v, before its deadline", script, result.Timings.Run)
		}
		if h := bound(result); h.Limit != sandbox.LimitTimeout || h.Value != int64(r.Request.Timeout) {
			t.Errorf("%s: the hint %+v does not name the limit", script, h)
		}
	}
}

func testLeftBehind(t *testing.T, s *suite) {
	for script, left := range map[string]int{
		"sleep 1000 & sleep 1000 & echo done":                              2,
		"setsid sleep 1000 & echo done":                                    1,
		"(setsid bash -c 'exec >&- 2>&- <&-; read <> <(:)' &) ; echo done": 1,
		"(echo done) & wait":                                               0,
	} {
		result := s.run(t, sh(script))
		wantOutput(t, result, "done\n")
		if got := hint[sandbox.HintLeft](result).Count; got != left {
			t.Errorf("%s: %d processes are said to be left", script, got)
		}
		if result.Timings.Run > stepTimeout/2 {
			t.Errorf("%s: held up for %v", script, result.Timings.Run)
		}
	}
	// Processes that were left behind are dead before the files are read.
	r := sh("(while :; do echo x >> log; done) & until [ -s log ]; do :; done")
	r.Request.Return.Globs = []string{"log"}
	result := s.run(t, r)
	wantStatus(t, result, sandbox.StatusSucceeded)
	if len(result.Files) != 1 || len(result.Skipped) != 0 {
		t.Errorf("%d files, left out %+v: a process still wrote", len(result.Files), result.Skipped)
	}
}

func testCancel(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(within(t))
	r := sh("echo up; sleep 1000")
	r.Request.Output = func(sandbox.Stream, []byte) { cancel() }
	result, err := s.engine.Run(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, result, sandbox.StatusCanceled)
	if string(result.Stdout.Head) != "up\n" {
		t.Errorf("what was written before is lost: %q", result.Stdout.Head)
	}
	ctx, cancel = context.WithCancel(within(t))
	cancel()
	if result, err = s.engine.Run(ctx, sh("echo up")); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, result, sandbox.StatusCanceled)
}

func testOutputLimit(t *testing.T, s *suite) {
	r := sh(`echo begin; head -c 3000000 /dev/zero | tr '\0' x; echo; echo end`)
	r.Spec.Limits.OutputBytes = 64 << 10
	streamed := 0
	r.Request.Output = func(_ sandbox.Stream, data []byte) { streamed += len(data) }
	result := s.run(t, r)
	wantStatus(t, result, sandbox.StatusSucceeded)
	c := result.Stdout
	if !strings.HasPrefix(string(c.Head), "begin\nxxx") || !strings.HasSuffix(string(c.Tail), "xxx\nend\n") {
		t.Errorf("kept %.20q ... %q", c.Head, c.Tail[max(0, len(c.Tail)-20):])
	}
	if total := int64(len(c.Head)+len(c.Tail)) + c.Dropped; total != 3000000+11 || len(c.Head)+len(c.Tail) != 64<<10 {
		t.Errorf("%d bytes in all, %d kept", total, len(c.Head)+len(c.Tail))
	}
	if streamed != 64<<10 {
		t.Errorf("%d bytes were streamed", streamed)
	}
	if h := hint[sandbox.HintOutput](result); h.Value != 64<<10 || h.Bytes != c.Dropped {
		t.Errorf("hint %+v", h)
	}

	r = sh("echo begin; exec yes")
	r.Request.Return.Globs = []string{"**"}
	result = s.run(t, r)
	wantStatus(t, result, sandbox.StatusOutputLimit)
	if result.Signal != 9 || !strings.HasPrefix(string(result.Stdout.Head), "begin\n") {
		t.Errorf("signal %d, %.20q", result.Signal, result.Stdout.Head)
	}
}

func testNothingToStart(t *testing.T, s *suite) {
	for _, c := range []struct {
		program string
		hint    sandbox.Hint
		exit    int
		says    string
	}{
		{"no-such-program", sandbox.HintNoCommand{Name: "no-such-program"}, 127, "command not found"},
		{"/no/such/program", sandbox.HintNoFile{Named: sandbox.Named{Name: "/no/such/program"}}, 127, "no such file"},
		{"./script", sandbox.HintNoLoader{Named: sandbox.Named{Name: "./script"}}, 127, "interpreter"},
		{"./windows", sandbox.HintLineEnds{Named: sandbox.Named{Name: "./windows"}}, 127, "carriage return"},
		{"/etc/passwd", sandbox.HintNotProgram{Named: sandbox.Named{Name: "/etc/passwd"}}, 127, "cannot execute"},
	} {
		r := engine.OneShot{Request: sandbox.Request{Command: []string{c.program, "x"}}}
		r.Request.Files = []sandbox.File{{Path: "script", Mode: 0o755, Data: []byte("#!/no/such/interpreter\n")},
			{Path: "windows", Mode: 0o755, Data: []byte("#!/bin/sh\r\n")}}
		result := s.run(t, r)
		wantStatus(t, result, sandbox.StatusFailed)
		if line := "fumehood: " + c.program + ": "; result.ExitCode != c.exit ||
			!reflect.DeepEqual(result.Hints, []sandbox.Hint{c.hint}) ||
			!strings.HasPrefix(string(result.Stderr.Head), line) ||
			!strings.Contains(string(result.Stderr.Head), c.says) {
			t.Errorf("%s: exit code %d, stderr %q, hints %+v", c.program, result.ExitCode, result.Stderr.Head,
				result.Hints)
		}
	}
	lacking := shell
	lacking.Programs = []string{"no-such-shell", "nor-this"}
	e, err := engine.New(engine.Config{Backends: []sandbox.Backend{s.backend}, Languages: []sandbox.Language{lacking}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, err = e.Run(within(t), code("true"))
	fixes := append(sandbox.FixesOf(err), nil)
	if sandbox.KindOf(err) != sandbox.Unsupported || fixes[0] != (sandbox.FixInstall{Command: shell.Missing.Fix}) ||
		!strings.Contains(err.Error(), "no-such-shell") {
		t.Errorf("an interpreter that is not there: %v", err)
	}
	second := shell
	second.Programs = []string{"no-such-shell", "bash"}
	e2, err := engine.New(engine.Config{Backends: []sandbox.Backend{s.backend}, Languages: []sandbox.Language{second}})
	if err != nil {
		t.Fatal(err)
	}
	defer e2.Close()
	result, err := e2.Run(within(t), code("echo second"))
	if err != nil {
		t.Fatalf("the second interpreter is not tried: %v", err)
	}
	wantOutput(t, result, "second\n")
}

func testFresh(t *testing.T, s *suite) {
	mark := canary()
	script := fmt.Sprintf(`ls -A /workspace /tmp "$HOME" /dev/shm 2>/dev/null
		for d in /workspace /tmp "$HOME" /dev/shm; do echo x > $d/%s; done`, mark)
	for range 3 {
		r := s.run(t, sh(script))
		if strings.Contains(string(r.Stdout.Head), mark) {
			t.Fatalf("a file of the run before is there: %s", r.Stdout.Head)
		}
	}
}

func testManyProcesses(t *testing.T, s *suite) {
	wantOutput(t, s.run(t,
		sh(`seq 1000 | sort -rn | head -1; for i in 1 2 3 4 5 6 7 8; do (echo $i) & done | sort | tr -d '\n'; wait`)),
		"1000\n12345678")
	// fewer than the limit of processes, should none end before the last begins
	r := sh("for i in {1..60}; do /bin/true & done; wait; echo ok")
	wantOutput(t, s.run(t, r), "ok\n")
}

// testSharing: three processes write to one database of SQLite, whose log they map; a semaphore in shared memory; and
// what a shell and a clock need besides: <( ) and TZ.
func testSharing(t *testing.T, s *suite) {
	wantOutput(t, s.run(t, python(`
import multiprocessing, os, sqlite3
def open_db():
    db = sqlite3.connect("a.db", timeout=60, isolation_level=None)
    print(db.execute("pragma journal_mode=wal").fetchone()[0]) if not os.path.exists("a.db-wal") else None
    return db
db = open_db()
db.execute("create table t (writer, n)")
semaphore = multiprocessing.Semaphore(0)
for writer in range(3):
    if os.fork() == 0:
        db = open_db()
        semaphore.acquire()
        for n in range(50):
            db.execute("insert into t values (?, ?)", (writer, n))
        os._exit(0)
for writer in range(3): semaphore.release()
codes = [os.wait()[1] for _ in range(3)]
print(codes, db.execute("select count(*), count(distinct writer) from t").fetchone(),
      db.execute("pragma integrity_check").fetchone()[0])
`)), "wal\n[0, 0, 0] (150, 3) ok\n")
	wantOutput(t, s.run(t, sh(`cat <(echo a) <(echo b); TZ=Asia/Kolkata date -d @0 +%H:%M`)), "a\nb\n05:30\n")
}
