package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// stepTimeout ends a step that hangs; no result depends on it.
const stepTimeout = 2 * time.Minute

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

// house is an engine over its own native backend.
type house struct {
	*engine.Engine
	testing.TB
	backend *Backend
	spec    sandbox.Spec // of its runs
}

// cold starts every program normally; warmed runs Python in forks of a waiting interpreter.
func cold(t *testing.T) *house { return newHouse(t, 0) }

func warmed(t *testing.T) *house {
	t.Helper()
	h := newHouse(t, 1)
	h.awaitZygote()
	return h
}

// rested runs Python, by waited, in an interpreter that waited in its sandbox: no fork may enter one with less than a
// CPU.
func rested(t *testing.T) *house {
	t.Helper()
	h := newHouse(t, 1)
	h.spec.Limits.CPUMillis = 999
	return h
}

func newHouse(t *testing.T, size int) *house {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can fork an interpreter into a sandbox")
	}
	h := &house{TB: t, backend: open(t, "")}
	var err error
	h.Engine, err = engine.New(engine.Config{Defaults: sandbox.Limits{Timeout: stepTimeout},
		Backends: []sandbox.Backend{h.backend}, Languages: []sandbox.Language{python.Language},
		Warm: size, Slots: 40, Queue: 40, QueueTimeout: stepTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	if in := await(h.backend); in != nil { // so that all of its sandboxes have the same mounts
		in.release()
	}
	return h
}

// awaitZygote makes runs until one is a fork.
func (h *house) awaitZygote() {
	h.Helper()
	before := h.Stats().Forked
	eventually(h, "a fork", func() bool {
		h.run(python3("pass"))
		return h.Stats().Forked > before
	})
}

func python3(code string) sandbox.Request {
	return sandbox.Request{Language: "python", Code: []byte(code)}
}

// layerSpec is a sandbox with a layer of packages, and the variables by which Python finds it, as the engine makes it.
func layerSpec(t *testing.T) sandbox.Spec {
	t.Helper()
	dir, err := os.MkdirTemp("", "layer") // open to the ids of sandboxes, which t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "layered.py"), []byte("value = 42"),
		0o644)); err != nil {
		t.Fatal(err)
	}
	in := python.Language.Installer
	env := plan.AddPaths(plan.MergeEnv(sandbox.DefaultEnv, python.Language.Env), in.Path)
	return sandbox.Spec{Layers: []sandbox.Layer{{Digest: "d", Dir: dir, At: in.At}}, Env: env}
}

func (h *house) run(r sandbox.Request) *sandbox.Result {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	result, err := h.Run(ctx, engine.OneShot{Spec: h.spec, Request: r})
	if err != nil {
		h.Fatal(err)
	}
	return result
}

// alone makes a single run, and fails if the engine did not fork for it although Warm is set, or did although it is 0.
func (h *house) alone(r sandbox.Request) *sandbox.Result {
	h.Helper()
	before := h.Stats().Forked
	result := h.run(r)
	if forked := h.Stats().Forked > before; forked != (h.zygote() != nil) {
		h.Fatalf("forked: %v; %s, %q, %q", forked, result.Status, result.Stdout.Head, result.Stderr.Head)
	}
	return result
}

// waited makes a single run in an interpreter that waited in its sandbox, or fails.
func (h *house) waited(r sandbox.Request) *sandbox.Result {
	h.Helper()
	if h.Stats().Warm == 0 {
		h.run(python3("pass"))
		eventually(h, "a warm sandbox", func() bool { return h.Stats().Warm > 0 })
	}
	before := h.Stats().Parked
	result := h.run(r)
	if h.Stats().Parked == before {
		h.Fatalf("no interpreter waited; %s, %q, %q", result.Status, result.Stdout.Head, result.Stderr.Head)
	}
	eventually(h, "the next warm sandbox", func() bool { return h.Stats().Warm > 0 })
	return result
}

// during runs a program that prints a line once it runs, calls do with the host ids of the guest and the program, and
// cancels the run.
func during(h *house, code string, do func(guest, program int)) {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	up, over := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := python3(code)
	r.Timeout = stepTimeout
	r.Output = func(sandbox.Stream, []byte) { once.Do(func() { close(up) }) }
	go func() {
		defer close(over)
		if _, err := h.Run(ctx, engine.OneShot{Request: r}); err != nil {
			h.Error(err)
		}
	}()
	select {
	case <-up:
	case <-over:
		h.Fatal("the program ended before it was up")
	}
	guest, program := h.family()
	do(guest, program)
	cancel()
	<-over
}

// family finds the one program that runs in a sandbox of this house, and its guest.
func (h *house) family() (guest, program int) {
	h.Helper()
	boxes, _ := filepath.Glob(filepath.Join(h.backend.options.RunDir, "instances", "*", "boxes", "*"))
	for _, dir := range boxes {
		for _, pid := range guestsOf(sandbox.ID(filepath.Base(dir)), nil) {
			if children := childrenOf(pid); len(children) > 0 && !isParked(children[0]) {
				guest, program = pid, children[0]
			}
		}
	}
	if guest == 0 || program == 0 {
		h.Fatal("no program is to be found")
	}
	return guest, program
}

// isParked reports whether a process is a fork that waits for its program: it still has its channel.
func isParked(pid int) bool {
	fds, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd", "*"))
	return slices.ContainsFunc(fds, func(fd string) bool {
		to, _ := os.Readlink(fd)
		return strings.HasPrefix(to, "socket:")
	})
}

// childrenOf lists the living children of all threads of a process.
func childrenOf(pid int) (pids []int) {
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	for _, path := range threads {
		text, _ := os.ReadFile(path) // the thread may have ended
		for _, word := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(word)
			if _, err := os.Readlink(filepath.Join("/proc", word, "exe")); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
