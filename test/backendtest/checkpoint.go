package backendtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// checkpointCases are for backends with the feature.
var checkpointCases = []testCase{
	{"checkpoint and restore",
		"a running sandbox can be saved repeatedly, and restored from each checkpoint, side by side, with its memory",
		testCheckpoint},
	{"checkpoint goes on", "after a checkpoint the guest can be dialled again, and an execution continues",
		testCheckpointGoesOn},
	{"restore is another", "a restored sandbox has its own key, name and random numbers", testRestoredIsAnother},
	{"restore refuses", "a restore that does not match the checkpoint is refused, and leaves nothing behind",
		testRestoreRefuses},
	{"checkpoint of one-shot", "a one-shot sandbox cannot be saved, and the error says so", testCheckpointOneShot},
}

// livingSpec returns a complete spec of a living sandbox.
func livingSpec() sandbox.Spec {
	s := spec()
	s.Lifetime = sandbox.Lifetime{Living: true}
	return s
}

func (s *suite) save(t *testing.T, box sandbox.Box) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "saved")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := box.(sandbox.Checkpointer).Checkpoint(within(t), dir); err != nil {
		t.Fatalf("checkpoint: %v", err)
	}
	return dir
}

func (s *suite) restore(t *testing.T, dir string) sandbox.Box {
	t.Helper()
	box, err := s.backend.(sandbox.Restorer).Restore(within(t), dir, livingSpec())
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return box
}

// counter is a shell that keeps a number in memory, adds one per input line, and writes it to a file.
const counter = `n=0
while read line; do n=$((n+1)); echo $n > /workspace/n.new; mv /workspace/n.new /workspace/n; done
echo ended with $n`

// startCounter starts a counter.
func startCounter(t *testing.T, c *client.Client) string {
	t.Helper()
	id := string(sandbox.NewID())
	p, err := c.Start(within(t), guest.Start{ID: id, Argv: []string{"/bin/bash", "-c", counter},
		Env:  sandbox.DefaultEnv,
		Dir:  sandbox.Workspace,
		User: sandbox.DefaultUser, Stdin: guest.StdinPipe})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	p.Close()
	return id
}

// count sends the counter one more line and checks its number.
func count(t *testing.T, box sandbox.Box, id, want string) {
	t.Helper()
	c := dial(t, box)
	p, err := c.Attach(within(t), guest.Attach{ID: id})
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	defer p.Close()
	if err := p.Input(within(t), []byte("more\n")); err != nil {
		t.Fatalf("input: %v", err)
	}
	eventually(t, "the number "+want, func() bool {
		var text bytes.Buffer
		_, err := c.ReadFile(within(t), guest.ReadFile{Path: "/workspace/n"}, &text)
		return err == nil && strings.TrimSpace(text.String()) == want
	})
}

func testCheckpoint(t *testing.T, s *suite) {
	first := s.create(t, livingSpec())
	id := startCounter(t, dial(t, first))
	count(t, first, id, "1")
	one := s.save(t, first)
	count(t, first, id, "2")
	two := s.save(t, first)
	count(t, first, id, "3")

	var restored [4]sandbox.Box
	var all sync.WaitGroup
	for i := range restored {
		all.Go(func() {
			var err error
			if restored[i], err = s.backend.(sandbox.Restorer).Restore(within(t), []string{one, two}[i%2],
				livingSpec()); err != nil {
				t.Errorf("restore: %v", err)
			}
		})
	}
	all.Wait()
	for i, box := range restored {
		if box == nil {
			t.Fatal("not restored")
		}
		t.Cleanup(func() {
			if err := box.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		count(t, box, id, []string{"2", "3"}[i%2])
	}
	count(t, first, id, "4")
	again := s.restore(t, s.save(t, restored[0])) // a checkpoint of a restored sandbox
	count(t, again, id, "3")
}

func testCheckpointGoesOn(t *testing.T, s *suite) {
	box := s.create(t, livingSpec())
	id := startCounter(t, dial(t, box))
	count(t, box, id, "1")
	s.save(t, box)
	c := dial(t, box)
	p, err := c.Attach(within(t), guest.Attach{ID: id})
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	if err := p.CloseStdin(within(t)); err != nil {
		t.Fatalf("close stdin: %v", err)
	}
	if out, exited := finish(t, p); out != "ended with 1\n" || exited.Code != 0 {
		t.Errorf("it said %q and ended with %d", out, exited.Code)
	}
}

func testRestoredIsAnother(t *testing.T, s *suite) {
	first := s.create(t, livingSpec())
	dir := s.save(t, first)
	a, b := s.restore(t, dir), s.restore(t, dir)
	if w := dial(t, a).Welcome(); w.ID != string(a.ID()) || w.Generation != 2 {
		t.Errorf("the guest says it is %q, generation %d; it is %s, restored once", w.ID, w.Generation, a.ID())
	}
	if a.GuestKey() == b.GuestKey() || a.GuestKey() == first.GuestKey() {
		t.Error("it has the key of another")
	}
	conn, err := a.Dial(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := client.New(within(t), conn, first.GuestKey()); err == nil {
		c.Close()
		t.Error("it answers to the key of the one that was saved")
	}
	random := func(box sandbox.Box) string {
		out, _ := finish(t, startShell(t, dial(t, box), "head -c 32 /dev/urandom | od -An -tx1"))
		return out
	}
	if x := random(a); x == "" || x == random(b) {
		t.Errorf("two that were restored draw the same random numbers: %q", x)
	}
}

func testRestoreRefuses(t *testing.T, s *suite) {
	restorer := s.backend.(sandbox.Restorer)
	if box, err := restorer.Restore(within(t), t.TempDir(), livingSpec()); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("of an empty directory came %v, %v", box, err)
	}
	dir := s.save(t, s.create(t, livingSpec()))
	other := livingSpec()
	other.Limits.Pids++
	if box, err := restorer.Restore(within(t), dir, other); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("with another limit came %v, %v", box, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // cut short: what is left of a full disk
		info, err := f.Info()
		if err != nil || info.Size() == 0 {
			continue
		}
		if err := os.Truncate(filepath.Join(dir, f.Name()), info.Size()/2); err != nil {
			t.Fatal(err)
		}
		spec := livingSpec()
		if box, err := restorer.Restore(within(t), dir, spec); err == nil {
			box.Close()
			t.Fatalf("one whose %s is cut short was restored", f.Name())
		}
		break
	}
}

func testCheckpointOneShot(t *testing.T, s *suite) {
	err := s.create(t, spec()).(sandbox.Checkpointer).Checkpoint(within(t), t.TempDir())
	if sandbox.KindOf(err) != sandbox.Unsupported {
		t.Errorf("it says %v", err)
	}
}
