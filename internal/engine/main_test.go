package engine_test

import (
	"context"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

// stepTimeout bounds a step that hangs. Nothing is measured against it.
const stepTimeout = 2 * time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%s did not come about\n%s", what, buf[:runtime.Stack(buf, true)])
		}
	}
}

var shell = sandbox.Language{
	Name:       "shell",
	Aliases:    []string{"sh"},
	FileName:   "main.sh",
	Extensions: []string{".sh"},
	Programs:   []string{"bash"},
	Argv:       func(program, path string) []string { return []string{program, path} },
	ModulePath: "SHELLPATH",
	LeastPids:  3,
	Env:        []string{"SHELL_SAYS=hello"},
	Offline:    []string{"SHELL_TRIES=0", "SHELL_LOOKS=0"},
}

func sh(script string) engine.OneShot {
	return engine.OneShot{Request: sandbox.Request{Command: []string{"bash", "-c", script}}}
}

// rig is an engine over a fake backend with faults. At the end of the test nothing of it may be left.
type rig struct {
	*engine.Engine
	fake *backendtest.Fake
	*faults
}

func newRig(t *testing.T, config engine.Config) *rig {
	t.Helper()
	fake := backendtest.NewFake(t)
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	f := &faults{Backend: fake}
	config.Backends = []sandbox.Backend{f}
	if config.Languages == nil {
		config.Languages = []sandbox.Language{shell}
	}
	e, err := engine.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if ids := fake.IDs(); len(ids) != 0 {
			t.Errorf("boxes are left: %v", ids)
		}
		if s := e.Stats(); s.Running+s.Queued+s.Closing+s.Live+s.Warm != 0 {
			t.Errorf("left after Close: %+v", s)
		}
		eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
		eventually(t, "the end of all descriptors", func() bool { return openDescriptors(t) <= descriptors })
	})
	return &rig{Engine: e, fake: fake, faults: f}
}

func openDescriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func (r *rig) run(t *testing.T, run engine.OneShot) *sandbox.Result {
	t.Helper()
	result, err := r.Run(within(t), run)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return result
}

// faults is a backend that does what a test wants at chosen moments.
type faults struct {
	sandbox.Backend

	mu      sync.Mutex // guards all below
	creates int
	open    int // boxes that were created and are not closed
	most    int
	create  func() error               // before a box is made
	close   func()                     // before a box is closed
	usage   func(u *sandbox.Usage)     // on what a box says it has cost
	spawned func(id sandbox.ID, n int) // after the n-th box was made
	probe   func() (sandbox.Posture, error)
	start   *sandbox.Start // of every image
	pull    func(context.Context) error
}

func (*faults) Root(sandbox.Spec) sandbox.Root { return sandbox.Root{} }

func (f *faults) ImageOf(ctx context.Context, name string, fetch sandbox.Fetch) (sandbox.Image, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if pull := f.pull; pull != nil && fetch != nil {
		f.mu.Unlock()
		err := fetch(ctx, pull)
		f.mu.Lock()
		if err != nil {
			return sandbox.Image{}, err
		}
	}
	return sandbox.Image{Digest: "digest of " + name, Start: f.start}, nil
}

func (f *faults) Probe(ctx context.Context) (sandbox.Posture, error) {
	if f.probe != nil {
		return f.probe()
	}
	return f.Backend.Probe(ctx)
}

func (f *faults) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	f.mu.Lock()
	create, spawned := f.create, f.spawned
	f.creates++
	n := f.creates
	f.mu.Unlock()
	if create != nil {
		if err := create(); err != nil {
			return nil, err
		}
	}
	box, err := f.Backend.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.open++
	f.most = max(f.most, f.open)
	f.mu.Unlock()
	if spawned != nil {
		spawned(spec.ID, n)
	}
	return &faultyBox{Box: box, faults: f}, nil
}

type faultyBox struct {
	sandbox.Box
	faults *faults
}

func (b *faultyBox) Link(ctx context.Context) (io.ReadWriteCloser, error) {
	return b.Box.(sandbox.Linker).Link(ctx)
}

func (b *faultyBox) Close() error {
	b.faults.mu.Lock()
	before := b.faults.close
	b.faults.mu.Unlock()
	defer func() {
		b.faults.mu.Lock()
		b.faults.open--
		b.faults.mu.Unlock()
	}()
	err := b.Box.Close()
	if before != nil {
		before()
	}
	return err
}

func (b *faultyBox) Usage(ctx context.Context) (sandbox.Usage, error) {
	u, err := b.Box.Usage(ctx)
	if b.faults.usage != nil {
		b.faults.usage(&u)
	}
	return u, err
}

func (*faultyBox) Yield(int) error { return nil }

// set changes what the backend does, also while runs are in progress.
func (f *faults) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faults) count() (creates, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.creates, f.most
}
