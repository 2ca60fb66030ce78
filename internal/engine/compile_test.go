package engine_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// built is a language whose compiler is a script: it obeys lines of the code that begin with "#cc ", and copies the
// rest.
var built = sandbox.Language{
	Name:     "built",
	FileName: "main.built",
	Compile: &sandbox.Compile{
		Programs: []string{"no-such-compiler", "bash"},
		Argv: func(program, path, output string) []string {
			return []string{program, "-c",
				`set -e; cd /tmp; echo "warned" >&2; eval "$(sed -n 's/^#cc //p' "$1")"; { echo '#!/bin/bash'; cat "$1"; } >"$2"; chmod +x "$2"`,
				"cc", path, output}
		},
		Output: "main",
		Limits: sandbox.Limits{MemoryBytes: 768 << 20, Timeout: 3 * time.Second},
	},
	Argv: func(_, path string) []string { return []string{path} },
}

func TestCompile(t *testing.T) {
	rig := newRig(t, engine.Config{Languages: []sandbox.Language{shell, built},
		Max: sandbox.Limits{Timeout: time.Minute}})
	living := rig.make(t, engine.Create{})
	for name, c := range map[string]struct {
		code           string
		timeout        time.Duration
		status         sandbox.Status
		exit           int
		stdout, stderr string
		failed         bool
	}{
		"runs": {"read x; echo $1 $x; echo err >&2; exit 3", 0, sandbox.StatusFailed, 3, "one two\n",
			"err\n", false},
		"does not compile": {"#cc echo broken >&2; exit 4\necho ran", 0, sandbox.StatusFailed, 4, "",
			"warned\nbroken\n", true},
		"compiles for longer": {"#cc sleep 0.6\necho ran", 500 * time.Millisecond, sandbox.StatusSucceeded, 0, "ran\n",
			"", false},
		"runs for too long": {"sleep 600", 200 * time.Millisecond, sandbox.StatusTimeout, -1, "", "", false},
		"compiles for ever": {"#cc sleep 600\necho ran", 200 * time.Millisecond, sandbox.StatusTimeout, -1, "",
			"warned\n", true},
		"a compiler is killed": {"#cc kill -9 $$\necho ran", 0, sandbox.StatusKilled, -1, "", "warned\n", true},
	} {
		request := sandbox.Request{Language: "built", Code: []byte(c.code), Args: []string{"one"},
			Stdin: []byte("two\n"), Timeout: c.timeout}
		for where, run := range map[string]func() *sandbox.Result{
			"fresh":  func() *sandbox.Result { return rig.run(t, engine.OneShot{Request: request}) },
			"living": func() *sandbox.Result { return do(t, living, engine.RunRequest{Request: request}) },
		} {
			r := run()
			if r.Status != c.status || r.ExitCode != c.exit || string(r.Stdout.Head) != c.stdout ||
				string(r.Stderr.Head) != c.stderr || r.Compiled == nil || r.Compiled.Failed != c.failed {
				t.Errorf("%s, %s: %s %d %q %q, %+v", name, where, r.Status, r.ExitCode, r.Stdout.Head, r.Stderr.Head,
					r.Compiled)
			} else if warned := string(r.Compiled.Stderr.Head) == "warned\n"; warned == c.failed ||
				hasHint[sandbox.HintNotCompiled](r) != c.failed {
				t.Errorf("%s, %s: %+v, %+v", name, where, r.Compiled, r.Hints)
			}
			if where == "fresh" && r.Requested.Limits.MemoryBytes != 768<<20 ||
				r.Requested.IsNamed(sandbox.LimitMemory) {
				t.Errorf("%s: %+v", name, r.Requested.Limits)
			}
		}
	}
	if r := do(t, living, script("ls -A /tmp/.fumehood-build")); len(r.Stdout.Head) > 0 {
		t.Errorf("left behind: %s", r.Stdout.Head)
	}
	missing := built
	missing.Compile = &sandbox.Compile{Programs: []string{"no-such-compiler"}, Argv: built.Compile.Argv, Output: "main"}
	missing.Missing.Fix = "apt install built"
	_, err := newRig(t, engine.Config{Languages: []sandbox.Language{missing}}).Run(
		within(t), engine.OneShot{Request: sandbox.Request{Language: "built", Code: []byte("true")}})
	refused(t, "no compiler", err, sandbox.Unsupported, "no-such-compiler")
	if fix := wording.CommandLine.Fix(err); !strings.HasPrefix(fix, "apt install built; or ") {
		t.Error(fix)
	}
}

// TestHeldCompilation: a run holds nothing that its compiler wrote once nobody can get that: in the background, and
// once it has ended.
func TestHeldCompilation(t *testing.T) {
	const count, size = 4, 900_000
	rig := newRig(t, engine.Config{Languages: []sandbox.Language{shell, built}})
	s := rig.make(t, engine.Create{})
	before := heapSize()
	for i := range count {
		text := fmt.Sprintf("#cc yes | head -c %d\n", size)
		x := engine.RunRequest{Request: sandbox.Request{Language: "built", Code: []byte(text + "exit 0")}}
		if x.Background = i < count/2; i == 0 {
			x.Request.Code = []byte(text + "touch begun; sleep 1000")
		}
		if !x.Background {
			do(t, s, x)
			continue
		}
		run, err := s.Start(within(t), x)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if _, err := run.Wait(within(t)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		eventually(t, "it runs", func() bool { _, err := s.Stat(within(t), "begun"); return err == nil })
	}
	if held := heapSize() - before; held > size {
		t.Errorf("%d bytes are held", held)
	}
	runtime.KeepAlive(s)
}

// TestCodeShared: runs in one sandbox at the same time run their own code, and leave files of the usual name alone.
func TestCodeShared(t *testing.T) {
	rig := newRig(t, engine.Config{Languages: []sandbox.Language{shell, built}, Slots: 16})
	s := rig.make(t, engine.Create{})
	for _, name := range []string{"main.sh", "main.built"} {
		if err := s.WriteFile(within(t), name, 0, strings.NewReader("mine")); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			want := fmt.Sprintln(i)
			r := do(t, s, engine.RunRequest{
				Request: sandbox.Request{Language: []string{"shell", "built"}[i%2], Code: []byte("echo " + want)}})
			if string(r.Stdout.Head) != want {
				t.Errorf("%d: %s %q %q", i, r.Status, r.Stdout.Head, r.Stderr.Head)
			}
		})
	}
	all.Wait()
	r := do(t, s, engine.RunRequest{Request: sandbox.Request{
		Command: []string{"sh", "-c", "ls -A; cat main.sh main.built"}}})
	if want := "main.built\nmain.sh\nminemine"; string(r.Stdout.Head) != want {
		t.Errorf("%q, want %q", r.Stdout.Head, want)
	}
}

// TestCompilerSurvey: a compiler that fails when it is asked for its version is not one that is missing, which would be
// remembered for long.
func TestCompilerSurvey(t *testing.T) {
	for program, want := range map[string]sandbox.Kind{
		"no-such-compiler": sandbox.Unsupported, "false": sandbox.Unavailable, "echo": sandbox.KindOf(nil)} {
		l := built
		compile := *built.Compile
		compile.Programs, compile.Version = []string{program}, []string{"1.2"}
		l.Compile = &compile
		rig := newRig(t, engine.Config{Languages: []sandbox.Language{l}})
		list, err := rig.Surveys(within(t), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := list[0].Err; (got == nil) != (program == "echo") || sandbox.KindOf(got) != want {
			t.Errorf("%s: %v", program, got)
		}
	}
}
