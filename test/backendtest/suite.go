package backendtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// stepTimeout ends a step that hangs; no result depends on it.
const stepTimeout = 2 * time.Minute

// Open returns a backend for one test, and closes it at the test's end.
type Open func(t *testing.T) sandbox.Backend

// testCase is one rule and the check of it.
type testCase struct {
	name string
	rule string // printed with a failure
	test func(t *testing.T, s *suite)
}

// suite is shared by the cases.
type suite struct {
	open    Open
	backend sandbox.Backend
	engine  *engine.Engine
}

// Run tests a backend's contract, and that programs run correctly on it. It needs no isolation.
func Run(t *testing.T, open Open) {
	runCases(t, open, contractCases)
	runCases(t, open, programCases)
	runCases(t, open, fileCases)
	if b := open(t); sandbox.HasFeature(b, sandbox.FeatureVolumes) {
		runCases(t, open, volumeCases)
	} else {
		t.Logf("%s mounts no volumes", b.Name())
	}
	if b := open(t); sandbox.HasFeature(b, sandbox.FeatureBuild) {
		cases := builderCases
		if testing.Short() {
			cases = cases[:1]
		}
		runCases(t, open, cases)
	} else {
		t.Logf("%s has no writable roots", b.Name())
	}
	if b := open(t); sandbox.HasFeature(b, sandbox.FeatureCheckpoint) {
		runCases(t, open, checkpointCases)
	} else {
		t.Logf("%s saves no sandboxes", b.Name())
	}
	if b := open(t); sandbox.HasFeature(b, sandbox.FeatureNetwork) {
		Links(t, open)
	} else {
		t.Logf("%s gives sandboxes no network", b.Name())
	}
}

// coreCases are the cases of Core: a box's whole life, input and output, and the limits that protect the host.
var coreCases = []string{"probe agrees with create", "dial", "dial again", "close while running", "after the end",
	"guest ends",
	"reap spares the owned", "reattach refuses the owned", "output", "ports", "timeout", "left behind", "files in",
	"files out",
	"memory", "memory of a child", "processes", "no network", "nothing survives"}

// Core tests the core of Run and Walls: for -short on a slow backend.
func Core(t *testing.T, open Open) {
	all := slices.Concat(contractCases, programCases, fileCases, wallCases)
	core := slices.DeleteFunc(all, func(c testCase) bool { return !slices.Contains(coreCases, c.name) })
	if len(core) != len(coreCases) {
		t.Fatalf("of %v there are %d", coreCases, len(core))
	}
	runCases(t, open, core)
}

// Walls tests real isolation: enforced limits, ends by the kernel, and unreachable resources.
func Walls(t *testing.T, open Open) {
	runCases(t, open, wallCases)
}

func runCases(t *testing.T, open Open, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the rule: %s", c.rule)
				}
			})
			s := &suite{open: open, backend: open(t)}
			s.engine = s.newEngine(t, engine.Config{})
			c.test(t, s)
		})
	}
}

// has reports whether the backend has a feature.
func (s *suite) has(name sandbox.FeatureName) bool { return sandbox.HasFeature(s.backend, name) }

// newEngine returns an engine over the backend, closed at the end of the test.
func (s *suite) newEngine(t *testing.T, config engine.Config) *engine.Engine {
	t.Helper()
	config.Backends = []sandbox.Backend{s.backend}
	config.Languages = []sandbox.Language{shell}
	if config.Defaults.Timeout == 0 {
		config.Defaults.Timeout = stepTimeout // cases about time set their own; an emulated processor is slow
	}
	e, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// shell is a language for tests, so that the suite needs none of the real ones.
var shell = sandbox.Language{
	Name:       "shell",
	FileName:   "main.sh",
	Extensions: []string{".sh"},
	Programs:   []string{"bash"},
	Argv:       func(program, path string) []string { return []string{program, path} },
	Missing:    sandbox.Missing{Fix: "install bash"},
}

// spec returns a complete spec with the default limits.
func spec() sandbox.Spec {
	return sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser,
		Env: sandbox.DefaultEnv, Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}}
}

// within returns a context that ends with the test or after stepTimeout.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	t.Cleanup(cancel)
	return ctx
}

// create makes a box that is closed at the end of the test.
func (s *suite) create(t *testing.T, spec sandbox.Spec) sandbox.Box {
	t.Helper()
	box, err := s.backend.Create(within(t), spec)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return box
}

// dial connects to the guest of a box until the end of the test.
func dial(t *testing.T, box sandbox.Box) *client.Client {
	t.Helper()
	conn, err := box.Dial(within(t))
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	c, err := client.New(within(t), conn, box.GuestKey())
	if err != nil {
		t.Fatalf("greet the guest: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the box may have gone first
	return c
}

// startShell starts a shell script in a box.
func startShell(t *testing.T, c *client.Client, script string) *client.Process {
	t.Helper()
	p, err := c.Start(within(t), guest.Start{ID: string(sandbox.NewID()), Argv: []string{"/bin/bash", "-c", script},
		Env: sandbox.DefaultEnv, Dir: sandbox.Workspace, User: sandbox.DefaultUser})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// finish reads a process's output and its exit record.
func finish(t *testing.T, p *client.Process) (stdout string, exited guest.Exited) {
	t.Helper()
	var out []byte
	exited, err := p.Stream(within(t), func(o guest.Output) error {
		if o.Stream == sandbox.Stdout {
			out = append(out, o.Data...)
		}
		return nil
	}, true)
	if err != nil {
		t.Fatalf("stream: %v", err)
	}
	return string(out), exited
}

// run makes a one-shot run that must not return an error.
func (s *suite) run(t *testing.T, r engine.OneShot) *sandbox.Result {
	t.Helper()
	result, err := s.engine.Run(within(t), r)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return result
}

// sh returns a run of a shell script.
func sh(script string) engine.OneShot {
	return engine.OneShot{Request: sandbox.Request{Command: []string{"bash", "-c", script}}}
}

// code returns a run of source text in the shell language.
func code(script string) engine.OneShot {
	return engine.OneShot{Request: sandbox.Request{Language: "shell", Code: []byte(script)}}
}

// python returns a run of Python source by the root's own interpreter.
func python(source string) engine.OneShot {
	return engine.OneShot{Request: sandbox.Request{Command: []string{"/usr/bin/python3", "-I", "-S", "-c", source}}}
}

// hint returns the first hint of type T of a result, or a zero one.
func hint[T sandbox.Hint](r *sandbox.Result) T {
	h, _ := sandbox.HintOf[T](r.Hints)
	return h
}

// bound returns the limit that the first hint is about.
func bound(r *sandbox.Result) sandbox.Bound {
	switch h := r.Hints[0].(type) {
	case sandbox.HintTimeout:
		return h.Bound
	case sandbox.HintWaited:
		return h.Bound
	case sandbox.HintMemory:
		return h.Bound
	case sandbox.HintMemoryKilled:
		return h.Bound
	case sandbox.HintMemoryEnded:
		return h.Bound
	}
	return sandbox.Bound{}
}

// wantStatus fails the test and prints the result unless it has the status.
func wantStatus(t *testing.T, r *sandbox.Result, want sandbox.Status) {
	t.Helper()
	if r.Status != want {
		t.Fatalf("status %s, want %s; exit code %d, signal %d\nstdout: %.500s\nstderr: %.500s\nhints: %+v",
			r.Status, want, r.ExitCode, r.Signal, r.Stdout.Head, r.Stderr.Head, r.Hints)
	}
}

// wantOutput fails the test unless the program succeeded and printed exactly this.
func wantOutput(t *testing.T, r *sandbox.Result, want string) {
	t.Helper()
	wantStatus(t, r, sandbox.StatusSucceeded)
	if got := string(r.Stdout.Head); got != want {
		t.Fatalf("stdout %.500q, want %.500q\nstderr: %.500s", got, want, r.Stderr.Head)
	}
}

// canary returns a unique word.
func canary() string { return "canary" + rand.Text() }

// eventually waits for a condition.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

func describe(u sandbox.Usage) string { return fmt.Sprintf("%+v", u) }
