package backendtest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// contractCases test sandbox.Backend and sandbox.Box themselves.
var contractCases = []testCase{
	{"probe agrees with create", "a backend whose Probe says ready can make a sandbox with the default policy",
		testProbe},
	{"dial", "a created box is ready: its guest answers with this sandbox's id", testDial},
	{"dial again", "a box can be dialled repeatedly; connections do not disturb each other", testDialAgain},
	{"key", "the guest serves nobody without the key", testKey},
	{"close twice", "a second Close, or one at the same time, returns what the first did", testCloseTwice},
	{"close while running", "Close ends every process, even unwilling ones", testCloseRunning},
	{"after the end", "a closed box reports how it ended and its usage, and cannot be dialled", testAfterEnd},
	{"guest ends", "Wait distinguishes a guest that ended by itself from a closed one", testGuestEnds},
	{"create canceled", "a canceled Create leaves nothing behind, whenever it is canceled", testCreateCanceled},
	{"effective", "every limit has a value or is reported as unlimited; an enforced one names its enforcer",
		testEffective},
	{"usage", "counters never run backwards, and unknown ones stay unknown", testUsage},
	{"reap spares the owned", "Reap destroys nothing that has a living owner; it is idempotent", testReap},
	{"reattach refuses the owned", "a box with a living owner cannot be reattached, nor one that never was",
		testReattach},
	{"concurrent", "boxes made at the same time are complete and separate", testConcurrent},
	{"wait canceled", "Wait and Dial return when their context ends", testWaitCanceled},
}

func testProbe(t *testing.T, s *suite) {
	posture, err := s.backend.Probe(within(t))
	if err != nil || !posture.Ready {
		t.Fatalf("ready %v, %v; yet tests run here", posture.Ready, err)
	}
	if posture.Backend != s.backend.Name() || posture.Kernel == "" {
		t.Errorf("the posture is of backend %q and kernel %q", posture.Backend, posture.Kernel)
	}
	s.create(t, spec())
}

func testDial(t *testing.T, s *suite) {
	want := spec()
	box := s.create(t, want)
	if box.ID() != want.ID {
		t.Errorf("the box is called %s, want %s", box.ID(), want.ID)
	}
	if w := dial(t, box).Welcome(); w.ID != string(want.ID) || w.Generation != 1 {
		t.Errorf("the guest says it is %q, generation %d", w.ID, w.Generation)
	}
}

func testDialAgain(t *testing.T, s *suite) {
	box := s.create(t, spec())
	first, second := dial(t, box), dial(t, box)
	p := startShell(t, first, "read x; echo got $x")
	_ = p
	if err := second.Close(); err != nil {
		t.Logf("close: %v", err)
	}
	third := dial(t, box)
	list, err := third.List(within(t))
	if err != nil || len(list) != 1 || list[0].ID != p.ID() {
		t.Fatalf("the third connection sees %+v (%v), want the process of the first", list, err)
	}
	if out, exited := finish(t, p); out != "got\n" || exited.Code != 0 {
		t.Errorf("the first connection got %q, code %d", out, exited.Code)
	}
}

func testKey(t *testing.T, s *suite) {
	box := s.create(t, spec())
	key := box.GuestKey()
	if key == ([guest.KeySize]byte{}) {
		t.Fatal("the key is zero")
	}
	other := s.create(t, spec())
	if other.GuestKey() == key {
		t.Fatal("two boxes have one key")
	}
	key[rand.IntN(len(key))] ^= 1
	conn, err := box.Dial(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	preamble := append([]byte(guest.Magic), guest.PurposeMux)
	if _, err := conn.Write(append(preamble, key[:]...)); err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(conn); len(answer) != 0 {
		t.Errorf("a wrong key is answered with %q", answer)
	}
	dial(t, box) // it still serves those who know
}

func testCloseTwice(t *testing.T, s *suite) {
	box := s.create(t, spec())
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = box.Close() })
	}
	all.Wait()
	for _, err := range append(errs, box.Close()) {
		if err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func testCloseRunning(t *testing.T, s *suite) {
	box := s.create(t, spec())
	c := dial(t, box)
	// The processes ignore every signal they can, and one leaves the session.
	p := startShell(t, c, `trap '' TERM INT HUP; setsid sleep 1000 & echo up; while :; do sleep 1000; done`)
	up := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		_, err := p.Stream(within(t), func(guest.Output) error { close(up); return nil }, true)
		ended <- err
	}()
	select {
	case <-up:
	case err := <-ended:
		t.Fatalf("the process ended: %v", err)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the stream ended as if the process had")
	}
	select {
	case <-c.Done():
	case <-time.After(stepTimeout):
		t.Error("the connection outlives the box")
	}
}

func testAfterEnd(t *testing.T, s *suite) {
	box := s.create(t, spec())
	p := startShell(t, dial(t, box), "echo hello")
	finish(t, p)
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	end, err := box.Wait(within(t))
	if err != nil || end.Cause != sandbox.EndClosed {
		t.Errorf("it ended as %+v, %v; want closed", end, err)
	}
	if u, err := box.Usage(within(t)); err != nil || u.Wall <= 0 {
		t.Errorf("after the end the usage is %s, %v", describe(u), err)
	}
	ctx := within(t)
	conn, err := box.Dial(ctx)
	if err == nil {
		_, err = client.New(ctx, conn, box.GuestKey())
	}
	if err == nil {
		t.Error("somebody answers for a closed box")
	}
	if ctx.Err() != nil {
		t.Error("dialling a closed box hangs")
	}
}

func testGuestEnds(t *testing.T, s *suite) {
	box := s.create(t, spec())
	if err := dial(t, box).Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	end, err := box.Wait(within(t))
	if err != nil || end.Cause != sandbox.EndGuest {
		t.Errorf("it ended as %+v, %v; want by its guest", end, err)
	}
}

func testCreateCanceled(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	if box, err := s.backend.Create(ctx, spec()); err == nil {
		t.Error("a box was made for a context that had ended")
		_ = box.Close()
	}
	started := time.Now()
	s.create(t, spec())
	usual := time.Since(started)
	for i := range 20 {
		ctx, cancel := context.WithTimeout(within(t), usual*time.Duration(i)/16)
		box, err := s.backend.Create(ctx, spec())
		cancel()
		switch {
		case err == nil:
			if err := box.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		case box != nil:
			t.Error("both a box and an error")
		}
	}
	dial(t, s.create(t, spec()))
}

func testEffective(t *testing.T, s *suite) {
	asked := spec()
	asked.Limits.OpenFiles = 100
	asked.Named = []sandbox.LimitName{sandbox.LimitOpenFiles}
	p := s.create(t, asked).Effective()
	if p.Backend != s.backend.Name() || p.Kernel == "" || p.HostUID == "" {
		t.Errorf("backend %q, kernel %q, host uid %q", p.Backend, p.Kernel, p.HostUID)
	}
	if p.Network.Mode != sandbox.NetworkNone || p.User != asked.User {
		t.Errorf("network %q, user %+v", p.Network.Mode, p.User)
	}
	for _, name := range sandbox.LimitNames {
		v := p.Limits.Get(name)
		switch {
		case v == 0 || v < sandbox.Unlimited:
			t.Errorf("limit %s: %d", name, v)
		case v == sandbox.Unlimited && asked.IsNamed(name):
			t.Errorf("limit %s was named and is not enforced", name)
		case name == sandbox.LimitTimeout || name == sandbox.LimitOutput: // the engine's
		case v != sandbox.Unlimited && p.Enforcers[name] == "":
			t.Errorf("limit %s is %s, but nothing enforces it", name, sandbox.FormatLimit(name, v))
		case v > asked.Limits.Get(name):
			t.Errorf("limit %s is %s, above the %s asked for", name, sandbox.FormatLimit(name, v),
				sandbox.FormatLimit(name, asked.Limits.Get(name)))
		}
	}
}

func testUsage(t *testing.T, s *suite) {
	box := s.create(t, spec())
	c := dial(t, box)
	var last sandbox.Usage
	for i := range 5 {
		finish(t, startShell(t, c, "for i in {1..2000}; do :; done"))
		u, err := box.Usage(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && (u.Wall < last.Wall || u.CPU < last.CPU || u.MemoryPeak < last.MemoryPeak ||
			u.OOMKills < last.OOMKills) {
			t.Errorf("usage ran from %s back to %s", describe(last), describe(u))
		}
		if i > 0 && (u.CPU < 0) != (last.CPU < 0) {
			t.Errorf("the CPU time is known at times: %s, %s", describe(last), describe(u))
		}
		last = u
	}
}

func testReap(t *testing.T, s *suite) {
	box := s.create(t, spec())
	for range 2 {
		if err := s.backend.Reap(within(t)); err != nil {
			t.Errorf("reap: %v", err)
		}
	}
	if out, _ := finish(t, startShell(t, dial(t, box), "echo alive")); out != "alive\n" {
		t.Errorf("a box with a living owner says %q after Reap", out)
	}
}

func testReattach(t *testing.T, s *suite) {
	box := s.create(t, spec())
	for id, want := range map[sandbox.ID]sandbox.Kind{box.ID(): sandbox.Exists, sandbox.NewID(): sandbox.NotFound} {
		if got, err := s.backend.Reattach(within(t), id); got != nil || sandbox.KindOf(err) != want {
			t.Errorf("got %v, %v; want the error %s", got, err, want)
		}
	}
	if out, _ := finish(t, startShell(t, dial(t, box), "echo alive")); out != "alive\n" {
		t.Errorf("it says %q afterwards", out)
	}
}

func testConcurrent(t *testing.T, s *suite) {
	const n = 12
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]bool{}
	for range n {
		all.Go(func() {
			sp := spec()
			box, err := s.backend.Create(within(t), sp)
			if err != nil {
				t.Errorf("create: %v", err)
				return
			}
			defer func() {
				if err := box.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			out, err := shellOutput(within(t), box,
				"ls /workspace /tmp; echo "+string(sp.ID)+" | tee /workspace/mine /tmp/mine")
			if err != nil {
				t.Errorf("run: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[out] || strings.Contains(out, "mine") || !strings.Contains(out, string(sp.ID)) {
				t.Errorf("a fresh box shows %q", out)
			}
			seen[out] = true
		})
	}
	all.Wait()
}

// shellOutput runs a script in a box and returns its stdout. Unlike startShell it may be called from any goroutine.
func shellOutput(ctx context.Context, box sandbox.Box, script string) (string, error) {
	conn, err := box.Dial(ctx)
	if err != nil {
		return "", err
	}
	c, err := client.New(ctx, conn, box.GuestKey())
	if err != nil {
		return "", err
	}
	defer c.Close()
	p, err := c.Start(ctx, guest.Start{ID: string(sandbox.NewID()), Argv: []string{"/bin/bash", "-c", script},
		Env: sandbox.DefaultEnv, Dir: sandbox.Workspace, User: sandbox.DefaultUser})
	if err != nil {
		return "", err
	}
	defer p.Close()
	var out []byte
	_, err = p.Stream(ctx, func(o guest.Output) error {
		if o.Stream == sandbox.Stdout {
			out = append(out, o.Data...)
		}
		return nil
	}, true)
	return string(out), err
}

func testWaitCanceled(t *testing.T, s *suite) {
	box := s.create(t, spec())
	ctx, cancel := context.WithCancel(within(t))
	time.AfterFunc(10*time.Millisecond, cancel)
	if end, err := box.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait on a living box returned %+v, %v", end, err)
	}
	if conn, err := box.Dial(ctx); err == nil {
		conn.Close()
		t.Error("Dial ignores that its context has ended")
	}
}
