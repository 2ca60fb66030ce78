package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// commands runs command lines against a server.
type commands struct {
	t      *testing.T
	server string
}

// livingServer starts a server with living sandboxes on native, and ends remaining sandboxes after the test.
func livingServer(t *testing.T) *commands {
	isNativeReady(t)
	s := startServer(t, "--backend", "native", "--allow-unenforced", "memory")
	c := &commands{t, s.url}
	t.Cleanup(func() { c.run(0, "", "rm", "--all") })
	return c
}

// isNativeReady skips a test if the host cannot make sandboxes.
func isNativeReady(t *testing.T) {
	e, err := testApp(t).openEngine(engine.Config{Default: "native", AllowUnenforced: []string{"memory"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if p := e.ProbeDefault(t.Context()); !p.Usable() {
		t.Skipf("native makes no sandbox here: %v", cmp.Or(p.Err, p.Refusal))
	}
}

// run runs a command line and returns its output. input is its standard input, a file.
func (c *commands) run(code int, input string, args ...string) (stdout, stderr string) {
	c.t.Helper()
	var out, errs bytes.Buffer
	m := testApp(c.t).Main
	m.Stdout, m.Stderr = &out, &errs
	file := filepath.Join(c.t.TempDir(), "stdin")
	if err := os.WriteFile(file, []byte(input), 0o600); err != nil {
		c.t.Fatal(err)
	}
	stdin, err := os.Open(file)
	if err != nil {
		c.t.Fatal(err)
	}
	defer stdin.Close()
	m.Stdin = stdin
	args = append([]string{args[0], "--server", c.server}, args[1:]...)
	if got := m.Run(context.Background(), args); got != code {
		c.t.Errorf("%q: exit code %d, not %d\n%s%s", args, got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

// prints runs a command line that succeeds with exactly this output.
func (c *commands) prints(want string, args ...string) {
	c.t.Helper()
	if out, errs := c.run(0, "", args...); out != want {
		c.t.Errorf("%q printed %q, not %q\n%s", args, out, want, errs)
	}
}

// fails runs a command line that fails with an error and a fix, given as patterns.
func (c *commands) fails(wantError, wantFix string, args ...string) {
	c.t.Helper()
	_, errs := c.run(exitFailure, "", args...)
	if !regexp.MustCompile(`(?m)^error: .*`+wantError).MatchString(errs) ||
		wantFix != "" && !regexp.MustCompile(`(?m)^fix: .*`+wantFix).MatchString(errs) {
		c.t.Errorf("%q said %s", args, errs)
	}
}

// TestLivingCommands plays a session with a living sandbox.
func TestLivingCommands(t *testing.T) {
	c := livingServer(t)
	c.prints("agent-7\n", "create", "--name", "agent-7", "--metadata", "user=alice", "--idle", "10m")
	c.prints("agent-7\n", "create", "--name", "agent-7")
	if _, errs := c.run(0, "", "create", "--name", "agent-7", "--memory", "64MiB"); !strings.Contains(errs,
		"existed already, and is unchanged: memory is ") {
		t.Errorf("other settings change nothing, silently: %q", errs)
	}

	// Variables stay; the last result is printed; each language has its own context.
	c.prints("", "run", "--in", "agent-7", "-c", "import math; total = 6*7")
	c.prints("sum\n42\n", "run", "--in", "agent-7", "-c", "print('sum'); total")
	c.prints("5\n", "run", "--in", "agent-7", "-l", "javascript", "-c", "let total = 5; total")
	c.prints("", "run", "--in", "agent-7", "--context", "other", "-c", "total = 1")
	c.prints("1\n", "run", "--in", "agent-7", "--context", "other", "-c", "total")
	if _, errs := c.run(1, "", "run", "--in", "agent-7", "-c", "total/0"); !strings.Contains(errs,
		"ZeroDivisionError") {
		t.Errorf("it said %s", errs)
	}
	_, errs := c.run(exitTimeout, "", "run", "--in", "agent-7", "--timeout", "1s", "-c", "while True: pass")
	if !strings.Contains(errs, "raise it: --timeout 2s") {
		t.Errorf("the hint is in other words: %s", errs)
	}
	c.prints("42\n", "run", "--in", "agent-7", "-c", "total")
	c.prints("2\n", "run", "--in", "agent-7", "--", "sh", "-c", "echo $((1+1))")

	// Commands, with streamed input; background runs and their logs.
	if out, _ := c.run(0, "one two\nthree\n", "exec", "-i", "agent-7", "--", "wc", "-w"); out != "3\n" {
		t.Errorf("wc counted %q", out)
	}
	c.run(3, "", "exec", "-e", "CODE=3", "agent-7", "--", "sh", "-c", "exit $CODE")
	id, _ := c.run(0, "", "exec", "--detach", "agent-7", "--",
		"sh", "-c", "echo begun; echo problem >&2; while [ ! -e go ]; do sleep 0.01; done; exit 4")
	id = strings.TrimSpace(id)
	c.prints("", "exec", "agent-7", "--", "touch", "go")
	if out, errs := c.run(4, "", "logs", "-f", "agent-7", id); out != "begun\n" || !strings.HasPrefix(errs,
		"problem\n") {
		t.Errorf("the log is %q and %q", out, errs)
	}
	c.prints("", "logs", "agent-7") // of touch
	var event struct {
		ID, Event string
		Data      struct{ Text string }
	}
	out, _ := c.run(0, "", "logs", "--json", "--after", "1", "agent-7", id)
	// order across the two streams is not preserved
	if err := json.Unmarshal([]byte(out[:strings.Index(out, "\n")]), &event); err != nil || event.ID != "2" ||
		event.Data.Text != "problem\n" && event.Data.Text != "begun\n" {
		t.Errorf("%v in %s", err, out)
	}
	if out, _ := c.run(0, "", "ps", "agent-7"); !strings.Contains(out, id) || !strings.Contains(out,
		"python in other") {
		t.Errorf("the executions are\n%s", out)
	}
	listed := regexp.MustCompile(`(?m)^agent-7 +\w+ +native +python,javascript,other\(python\) +\d +in \d`)
	if out, _ := c.run(0, "", "ps", "--metadata", "user=alice"); !listed.MatchString(out) {
		t.Errorf("the sandboxes are\n%s", out)
	}
	if out, _ := c.run(0, "", "stats", "agent-7"); !strings.HasPrefix(out, "AGE") || strings.Count(out, "\n") != 2 {
		t.Errorf("the statistics are\n%s", out)
	}
	c.run(0, "", "restart", "agent-7", "--context", "other")
	if _, errs := c.run(1, "", "run", "--in", "agent-7", "--context", "other", "-c", "total"); !strings.Contains(errs,
		"NameError") {
		t.Errorf("it said %s", errs)
	}
	c.fails("several contexts are called default: of python and javascript", "--lang python", "interrupt", "agent-7")
	c.run(0, "", "interrupt", "--lang", "js", "agent-7")
	c.prints("True\n", "run", "--in", "agent-7", "-c", "import os; os.path.exists('go')")

	for _, words := range [][]string{{"exec", "--server", c.server, ""}, {"run", "--server", c.server, "--in", "ag"}} {
		var out bytes.Buffer
		m := testApp(t).Main
		m.Stdout, m.Stderr = &out, &bytes.Buffer{}
		if m.Run(t.Context(), append([]string{"__complete"}, words...)); !strings.HasPrefix(out.String(), "agent-7\n") {
			t.Errorf("%q is completed to %q", words, &out)
		}
	}

	// Errors have a fix.
	c.fails("agent-8", "fumehood create --name", "run", "--in", "agent-8", "-c", "1")
	c.fails("no context has this name", "fumehood ps", "restart", "--context", "nowhere", "agent-7")
	c.fails("no such run", "fumehood ps", "logs", "agent-7", strings.Repeat("a", 26))
	c.prints("", "rm", "agent-7")
	if _, errs := c.run(exitNotFound, "", "rm", "agent-7", "never"); !strings.Contains(errs, "it was removed") ||
		!strings.Contains(errs, "no living sandbox has this name") || strings.Contains(errs, "create it") {
		t.Errorf("rm of sandboxes that have ended: %s", errs)
	}
	c.fails("it has ended: it was removed", "fumehood create", "exec", "agent-7", "--", "ls")
	c.fails("--all", "ps", "rm")
	c.fails("a word is missing", `fumehood stats \[FLAGS\] NAME$`, "stats")
	c.fails(`"b" is one word too many`, `fumehood stats`, "stats", "a", "b")
	c.fails(`"agent-7" is one word too many`, "fumehood create --name agent-7", "create", "agent-7")
	c.fails(`"x" is not a whole number`, "", "logs", "--after", "x", "agent-7")
}

// TestLivingUnenforced: create and repl report unenforced limits, as run does.
func TestLivingUnenforced(t *testing.T) {
	isNativeReady(t)
	lack := []string{"memory", "cpu"}
	c := &commands{t, startServerLacking(t, lack, "--backend", "native").url}
	t.Cleanup(func() { c.run(0, "", "rm", "--all") })
	m := testApp(t).Main
	var errs bytes.Buffer
	m.Stdout, m.Stderr, m.Lack = &bytes.Buffer{}, &errs, lack
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	typed.Close()
	defer in.Close()
	m.Stdin = in
	if code := m.Run(t.Context(), []string{"repl", "--backend", "native", "--allow-unenforced", "memory"}); code != 0 {
		t.Errorf("exit code %d", code)
	}
	_, created := c.run(0, "", "create", "--name", "agent-7", "--allow-unenforced", "memory")
	for face, said := range map[string]string{"repl": errs.String(), "create": created} {
		if strings.Contains(said, "no cpus limit is enforced") || // who waives one knows this host
			!strings.Contains(said, "not enforced on this host, as allowed: memory") {
			t.Errorf("%s said %q", face, said)
		}
	}
	var answer struct {
		Lifetime api.Lifetime
		Policy   struct{ Differences []struct{ Name string } }
	}
	out, _ := c.run(0, "", "create", "--name", "agent-7", "--json")
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Lifetime.IdleS == nil ||
		*answer.Lifetime.IdleS == 0 || len(answer.Policy.Differences) != 2 {
		t.Errorf("%v in %s", err, out)
	}
}

// TestLivingResults: text is printed, other forms are saved or counted.
func TestLivingResults(t *testing.T) {
	c := livingServer(t)
	c.run(0, "", "create", "--name", "box")
	code := `
class Picture:
    def _repr_png_(self): return b'\x89PNG\r\n\x1a\n' + b'x'
class Table:
    def __repr__(self): return 'a table'
    def _repr_html_(self): return '<table>'
display(Picture()); Table()`
	out, errs := c.run(0, "", "run", "--in", "box", "-c", code)
	if out != "a table\n" ||
		!strings.Contains(errs, "a terminal cannot show some results: 1 of type image/png; --out DIR saves") {
		t.Errorf("%q and %q", out, errs)
	}
	dir := filepath.Join(t.TempDir(), "out")
	for range 2 { // the second replaces nothing
		c.run(0, "", "run", "--in", "box", "--out", dir, "-c", code)
	}
	for name, want := range map[string]string{"result-1.png": "\x89PNG\r\n\x1a\nx",
		"result-2.png":  "\x89PNG\r\n\x1a\nx",
		"result-2.html": "<table>"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestCopy copies files and folders both ways. A sandbox cannot make cp write elsewhere.
func TestCopy(t *testing.T) {
	c := livingServer(t)
	c.run(0, "", "create", "--name", "box")
	here := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(here, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(here, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(here, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	write("data/a b.txt", "one", 0o644)
	write("data/deep/run.sh", "#!/bin/sh\necho run\n", 0o755)
	if err := os.Symlink("/etc/passwd", filepath.Join(here, "data/link")); err != nil {
		t.Fatal(err)
	}
	if _, errs := c.run(exitFailure, "", "cp", filepath.Join(here, "data"), "box:"); !strings.Contains(errs,
		"link was left out") {
		t.Errorf("it said %s", errs)
	}
	c.prints("./a b.txt\n./deep/run.sh\n", "exec", "box", "--", "sh", "-c", "cd data && find . -type f | sort")
	c.prints("", "cp", filepath.Join(here, "data/a b.txt"), "box:/tmp/b.txt")
	c.prints("one", "cp", "box:/tmp/b.txt", "-")
	c.run(0, "typed", "cp", "-", "box:typed.txt")

	c.prints("", "exec", "box", "--",
		"sh", "-c", "mkdir -p out/sub; echo 1 > out/sub/x; ln -s / out/root; ln -s /etc out/sub/etc; mkfifo out/pipe")
	_, errs := c.run(exitFailure, "", "cp", "box:out", here)
	for _, left := range []string{"root", "sub/etc", "pipe"} {
		if !strings.Contains(errs, "warning: "+left+" was left out") {
			t.Errorf("%s is not named in %s", left, errs)
		}
		if _, err := os.Lstat(filepath.Join(here, "out", left)); err == nil {
			t.Errorf("%s was copied", left)
		}
	}
	read("out/sub/x", "1\n")
	c.prints("", "cp", "box:typed.txt", here)
	read("typed.txt", "typed")
	c.prints("", "cp", "box:typed.txt", filepath.Join(here, "new/name"))
	read("new/name", "typed")
	c.fails("/workspace/missing does not exist", "", "cp", "box:missing", here)
	c.fails("exactly one", "NAME:PATH|agent-7", "cp", "a", "b")
	c.prints("", "clean", "box")
	c.prints("", "exec", "box", "--", "ls", "-A")
}

// TestInterruptLiving: Control-C interrupts code, and its variables stay. A second one cancels a command that ignores
// the first.
func TestInterruptLiving(t *testing.T) {
	c := livingServer(t)
	c.run(0, "", "create", "--name", "box")
	var seen *said
	begin := func(args ...string) (interrupt func(), exit <-chan int) {
		interrupts, code := make(chan os.Signal, 1), make(chan int, 1)
		seen = &said{}
		m := testApp(t).Main
		m.Stdout, m.Stderr, m.Interrupts = seen, seen, interrupts
		go func() {
			code <- m.Run(context.Background(), append([]string{args[0], "--server", c.server}, args[1:]...))
		}()
		seen.wait(t, "(?m)^begun$")
		return func() { interrupts <- os.Interrupt }, code
	}
	interrupt, exit := begin("run", "--in", "box", "-c", "x = 6*7; print('begun'); __import__('time').sleep(60)")
	interrupt()
	if code := <-exit; code != 1 {
		t.Errorf("interrupted code ends with %d", code)
	}
	c.prints("42\n", "run", "--in", "box", "-c", "x")
	c.prints("1\n", "run", "--in", "box", "-l", "javascript", "-c", "1")
	_, exit = begin("run", "--in", "box", "-c", "print('begun'); __import__('time').sleep(60)")
	c.run(0, "", "interrupt", "box") // of its two contexts, the one that runs
	if code := <-exit; code != 1 {
		t.Errorf("interrupted code ends with %d", code)
	}
	interrupt, exit = begin("exec", "box", "--", "sh", "-c",
		"trap 'echo begun' INT; echo begun; while :; do sleep 0.01; done")
	interrupt()
	interrupt()
	if code := <-exit; code != exitCanceled {
		t.Errorf("a canceled command ends with %d", code)
	}
	interrupt, exit = begin("exec", "box", "--", "sh", "-c",
		"trap 'exit 7' INT; echo begun; while :; do sleep 0.01; done")
	interrupt()
	if code := <-exit; code != 7 {
		t.Errorf("a command that handles the interrupt ends with %d", code)
	}
	interrupt, exit = begin("exec", "box", "--", "sh", "-c", "echo begun; exec sleep 60")
	interrupt()
	if code := <-exit; code != exitCanceled || strings.Contains(seen.String(), "hint:") {
		t.Errorf("an interrupted command ends with %d and %q", code, seen)
	}
}

// TestFlagsOfRunIn: run --in supports a flag or refuses it. It ignores none.
func TestFlagsOfRunIn(t *testing.T) {
	done := strings.Fields("allow-build checks code config context env env-file file help in interactive json key-file " +
		"lang out overwrite packages pass-env " +
		"pass-secret quiet return rm server stdin strict-files timeout tty verbose")
	refused := append(append(flagsOfSandbox(), flagsOfServer()...), "dry-run", "lock", "workdir")
	a := testApp(t)
	cmd := a.newRun()
	cmd.InitDefaultHelpFlag()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(done, f.Name) == slices.Contains(refused, f.Name) {
			t.Errorf("--%s is neither supported nor refused", f.Name)
		}
		if slices.Contains(flagsOfSandbox(), f.Name) || slices.Contains(flagsOfServer(), f.Name) {
			f.Changed = true
			if err := a.refuseForLiving(cmd, "agent-7"); sandbox.KindOf(err) != sandbox.Invalid || err == nil ||
				!strings.Contains(err.Error(), "--"+f.Name) {
				t.Errorf("--%s: %v", f.Name, err)
			}
			f.Changed = false
		}
	})
}
