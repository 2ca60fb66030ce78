package main

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/backend/native"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

// testApp is the program in this process, with helper programs built once.
func testApp(t *testing.T) *app {
	programs := libexecDir(t)
	home := t.TempDir()
	return &app{interrupt: func(error) {}, Main: Main{
		Stdout: t.Output(), Stderr: t.Output(), Exit: func(int) { t.Error("Exit was called") },
		Environ: os.Environ,
		LookupEnv: func(name string) (string, bool) {
			switch name {
			case "HOME":
				return home, true
			case "FUMEHOOD_LIBEXEC":
				return programs, true
			case "XDG_RUNTIME_DIR", "DOCKER_HOST":
				return os.LookupEnv(name)
			}
			return "", false
		},
	}}
}

// TestLanguages runs the suite of every language on every backend of this system.
func TestLanguages(t *testing.T) {
	a := testApp(t)
	a.containers.image = backendtest.EngineImage
	own, variables := a.LookupEnv, map[string]string{"DOCKER_HOST": "docker", "CONTAINER_HOST": "podman"}
	a.LookupEnv = func(name string) (string, bool) {
		if backend := variables[name]; backend != "" {
			return backendtest.EngineHost(t, backend), true
		}
		return own(name)
	}
	e, err := a.openEngine(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	// A host that cannot limit memory still runs programs; the backend's own tests cover what it lacks.
	spec := sandbox.Spec{AllowUnenforced: []string{string(sandbox.LimitMemory)}}
	for _, b := range e.backends.Backends {
		run := func(ctx context.Context, request sandbox.Request) (*sandbox.Result, error) {
			return e.Run(ctx, engine.OneShot{Backend: b.Name(), Spec: spec, Request: request})
		}
		t.Run(b.Name(), func(t *testing.T) {
			if testing.Short() && b.Name() != native.Name {
				t.Skip("make check: a container or a kernel for each of many cases")
			}
			if b.Name() == "docker" || b.Name() == "podman" {
				backendtest.EngineHost(t, b.Name()) // or it is skipped
			}
			for _, l := range lang.All() {
				t.Run(l.Name, func(t *testing.T) {
					toolchain(t, run, l)
					langtest.Run(t, run, l)
				})
			}
		})
	}
}

// quickLanguages are the languages whose toolchain CI has, and whose cases take a second there.
var quickLanguages = []string{"python", "javascript", "bash", "typescript"}

// toolchain skips a language whose toolchain this host lacks, unless all are required.
func toolchain(t *testing.T, run langtest.RunFunc, l sandbox.Language) {
	if !slices.Contains(quickLanguages, l.Name) {
		backendtest.ForCheck(t, "a toolchain of its own")
	}
	_, err := run(t.Context(), sandbox.Request{Language: l.Name, Code: []byte(l.Probe)})
	if sandbox.KindOf(err) == sandbox.Unsupported && l.Driver == nil {
		backendtest.Skip(t, "languages", err)
	}
}

// TestSized: a program that fills the heap of its runtime gets the runtime's own error before the kernel kills it, and
// runtimes count the CPUs of the sandbox. Variables of the caller win.
func TestSized(t *testing.T) {
	e, err := testApp(t).openEngine(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run := func(ctx context.Context, request sandbox.Request) (*sandbox.Result, error) {
		spec := sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 160 << 20, CPUMillis: 1500}}
		return e.Run(ctx, engine.OneShot{Backend: native.Name, Spec: spec, Request: request})
	}
	for _, c := range []struct{ language, code, stdout, stderr string }{
		{"javascript", "const all = []; for (;;) all.push(new Array(1e5).fill(0.5))", "", "heap out of memory"},
		{"java", "class Main { public static void main(String[] a) { var all = new java.util.ArrayList<byte[]>();" +
			"System.out.print(Runtime.getRuntime().availableProcessors()); for (;;) all.add(new byte[1 << 20]); } }",
			"2", "OutOfMemoryError"},
		{"r", "all <- list(); for (i in 1:1000) all[[i]] <- numeric(1e6)", "", "vector memory exhausted"},
		{"go", "package main\nimport (\"os\"; \"fmt\"; \"runtime\")\nfunc main() { fmt.Print(runtime.GOMAXPROCS(0), " +
			"os.Getenv(\"GOMEMLIMIT\")) }\n", "2144MiB", ""},
		{"python", "import os; print(os.cpu_count())", strconv.Itoa(min(2, runtime.NumCPU())) + "\n", ""},
		{"bash", "nproc; OMP_NUM_THREADS=7 nproc", "2\n7\n", ""},
	} {
		t.Run(c.language, func(t *testing.T) {
			l, err := e.Language(c.language)
			if err != nil {
				t.Fatal(err)
			}
			toolchain(t, run, l)
			r, err := run(t.Context(), sandbox.Request{Language: c.language, Code: []byte(c.code)})
			if err != nil {
				t.Fatal(err)
			}
			_, hinted := sandbox.HintOf[sandbox.HintMemory](r.Hints)
			if string(r.Stdout.Head) != c.stdout || !strings.Contains(string(r.Stderr.Head), c.stderr) ||
				hinted != (c.stderr != "") {
				t.Errorf("%s, %q, %q, hints %+v", r.Status, r.Stdout.Head, r.Stderr.Head, r.Hints)
			}
		})
	}
}
