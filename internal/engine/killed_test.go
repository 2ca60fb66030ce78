package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// cutting is a backend whose connections to guests stop, as if the server were killed: nothing reaches the guest after
// some writes.
type cutting struct {
	sandbox.Backend
	mu     sync.Mutex // guards all below
	left   int        // writes until the cut; negative is no cut
	half   bool       // the guest gets half of the last one
	cut    chan struct{}
	closed bool // it is cut
}

func (c *cutting) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	box, err := c.Backend.Create(ctx, spec)
	return &cuttingBox{box, c}, err
}

type cuttingBox struct {
	sandbox.Box
	backend *cutting
}

func (b *cuttingBox) Dial(ctx context.Context) (net.Conn, error) {
	b.backend.mu.Lock()
	defer b.backend.mu.Unlock()
	if b.backend.closed {
		return nil, errors.New("the server was killed")
	}
	conn, err := b.Box.Dial(ctx)
	return &cuttingConn{conn, b.backend}, err
}

type cuttingConn struct {
	net.Conn
	backend *cutting
}

func (c *cuttingConn) Write(p []byte) (int, error) {
	b := c.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left == 0 {
		if b.half {
			_, _ = c.Conn.Write(p[:len(p)/2])
		}
		b.closed = true
		close(b.cut)
	}
	if b.closed {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *cutting) arm(writes int, half bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.half, c.closed, c.cut = writes, half, false, make(chan struct{})
}

// TestKilledAtAnyCall: a background run whose start was answered runs exactly once, at whichever call to the guest its
// server was killed.
func TestKilledAtAnyCall(t *testing.T) {
	const once = "import time\nwith open('f', 'a') as f: f.write('1')\n"
	stdin := strings.Repeat("x", 200<<10)
	inDefault, inNew := code("python", once+"x = 1"), code("python", once+"x = 1")
	large := code("python", once+"x = 1\ny = '"+stdin+"'")
	process := script("cat > g && printf 1 >> f")
	process.Request.Stdin, process.Request.Files = []byte(stdin), []sandbox.File{{Path: "h", Data: []byte("h")}}
	for name, c := range map[string]struct {
		request engine.RunRequest
		warm    bool // the context has its interpreter
	}{"in a context": {inDefault, true}, "in a new context": {inNew, false}, "large": {large, true},
		"process": {process, false}} {
		t.Run(name, func(t *testing.T) {
			c.request.Background = true
			step, cuts := 1, 0
			if testing.Short() {
				step = 4
			}
			for n, was := 1, true; was; n += step {
				was = killAt(t, c.request, c.warm, n, n%2 == 0)
				cuts++
			}
			if cuts < 2 {
				t.Errorf("the run was cut %d times", cuts)
			}
		})
	}
}

// killAt starts a run, kills the server at the n-th write, and checks what the next server makes of the run. It reports
// whether the run had not ended before.
func killAt(t *testing.T, request engine.RunRequest, warm bool, n int, half bool) (cut bool) {
	k, open := keeping(t)
	connections := &cutting{Backend: k.Backend, left: -1}
	k.Backend = connections
	stateDir, killed := t.TempDir(), t.TempDir()
	first, s := openOne(t, open, stateDir)
	if warm {
		do(t, s, code("python", "x = 0"))
	}
	connections.arm(n, half)
	x, err := s.Start(within(t), request)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-connections.cut:
		cut = true
	case <-x.Done():
	}
	record := k.record(s.ID())
	if err := os.CopyFS(killed, os.DirFS(stateDir)); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil && !cut {
		t.Error(err)
	}
	connections.arm(-1, false)

	second := open(killed)
	defer second.Close()
	where := fmt.Sprintf("killed at write %d", n)
	second.Resume(within(t), []sandbox.Record{record})
	if s, err = second.Sandbox(within(t), "", string(s.ID())); err != nil {
		t.Fatal(where, err)
	}
	if x, err = s.FindRun(x.ID()); err != nil {
		t.Fatal(where, err)
	}
	if r, err := x.Wait(within(t)); err != nil || r.Status != sandbox.StatusSucceeded {
		t.Errorf("%s: %+v, %v", where, r, err)
	}
	for path, want := range map[string]string{"f": "1", "g": string(request.Request.Stdin)} {
		var text strings.Builder
		if want == "" {
			continue
		}
		if _, err := s.ReadFile(within(t), path, 0, 1<<30, &text); err != nil || text.String() != want {
			t.Errorf("%s: %s has %d bytes, %.10q, %v", where, path, text.Len(), text.String(), err)
		}
	}
	if request.Request.Code != nil {
		if r := do(t, s, code("python", "x")); value(r) != "1" {
			t.Errorf("%s: x is %q: %+v", where, value(r), r)
		}
	}
	if left, err := os.ReadDir(killed); err != nil || hasRequest(killed, left) {
		t.Errorf("%s: its request is left: %v", where, err)
	}
	if err := s.Close(); err != nil {
		t.Error(where, err)
	}
	return cut
}

// cutAddition is a Packager whose server is killed while it changes the folder of a sandbox.
type cutAddition struct {
	pretended
	killed bool
	shown  chan []string // requirements of each Show that succeeded
}

func (c *cutAddition) Supply(ctx context.Context, need sandbox.PackageNeed, work sandbox.Worker) (
	*sandbox.Supply, error) {
	s, err := c.pretended.Supply(ctx, need, work)
	s.Layers, s.Missing = []sandbox.Layer{{}}, nil
	return s, err
}

func (c *cutAddition) Show(_ sandbox.Layer, _, _ string, record func() error) error {
	if err := record(); err != nil || c.killed {
		return errors.Join(err, errors.New("the server was killed"))
	}
	c.shown <- c.asked[len(c.asked)-1]
	return nil
}

func (c *cutAddition) Linked(string) bool { return false }

// TestKilledWhilePackagesAreAdded: packages are on record before the sandbox can see the first of them, and the next
// server shows all of them.
func TestKilledWhilePackagesAreAdded(t *testing.T) {
	k, _ := keeping(t)
	stateDir := t.TempDir()
	open := func(p sandbox.Packager) *engine.Engine {
		e, err := engine.New(engine.Config{Backends: []sandbox.Backend{k}, Languages: lang.All(), Packages: p,
			Living: engine.LivingConfig{StateDir: stateDir, Store: k}})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := open(&cutAddition{killed: true})
	s, _, err := first.Create(within(t), engine.Create{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(within(t), adding("python", "1", "a")); err == nil {
		t.Error("the server was not killed")
	}
	record := k.record(s.ID())
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	p := &cutAddition{shown: make(chan []string, 1)}
	second := open(p)
	defer second.Close()
	second.Resume(within(t), []sandbox.Record{record})
	select {
	case shown := <-p.shown:
		if !slices.Equal(shown, []string{"a"}) {
			t.Errorf("the next server shows %q", shown)
		}
	case <-within(t).Done():
		t.Errorf("the next server does not show the packages: %+v", record.Packages)
	}
	if s, err = second.Sandbox(within(t), "", string(s.ID())); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// hasRequest reports whether a folder of a state folder has the request of a run.
func hasRequest(dir string, in []os.DirEntry) bool {
	for _, e := range in {
		files, _ := os.ReadDir(dir + "/" + e.Name())
		for _, f := range files {
			if strings.HasSuffix(f.Name(), ".request") {
				return true
			}
		}
	}
	return false
}
