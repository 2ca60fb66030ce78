package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// abandon drops an instance's lock, as its process's death would. Starting children would die too, and hold the lock
// between fork and exec.
func abandon(t *testing.T, b *Backend) {
	t.Helper()
	b.templates.close()
	if err := b.In.Abandon(); err != nil {
		t.Fatal(err)
	}
}

// TestReap abandons an instance as kill -9 would, and lets another clean up after it. A living neighbour is left alone.
func TestReap(t *testing.T) {
	runDir := filepath.Join(t.TempDir(), "run")
	newBackend := func() *Backend {
		b, err := New(Options{Guest: guestProgram, RunDir: runDir})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	dead, alive, next := newBackend(), newBackend(), newBackend()
	orphan, neighbour := create(t, dead, spec()).(*Box), create(t, alive, spec())
	abandon(t, dead) // but for its lifelines, which we keep to prove that the reaper kills
	for range 2 {
		if err := next.Reap(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if left := guestsOf(orphan.Sandbox, nil); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	for _, dir := range dead.In.Tree.Dirs() {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
	if _, err := os.Stat(dead.In.Dir); err == nil {
		t.Errorf("%s is left", dead.In.Dir)
	}
	if o := run(t, neighbour, "/bin/echo", "alive"); o.stdout != "alive\n" {
		t.Errorf("the neighbour was disturbed: %+v", o)
	}
	if err := neighbour.Close(); err != nil {
		t.Error(err)
	}
	for _, b := range []*Backend{alive, next} {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(runDir, "instances")); len(left) > 0 {
		t.Errorf("instances are left: %v", left)
	}
}

// TestRestart kills servers of living boxes.
func TestRestart(t *testing.T) {
	backendtest.Restart(t, backendtest.Restarted{Accept: accepted(), Open: func(t *testing.T,
		run string) sandbox.Backend {
		b, err := New(Options{Guest: guestProgram, RunDir: run, GuestStderr: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}})
}

// TestUnrecorded: a living box whose server died in the middle of its creation is not one.
func TestUnrecorded(t *testing.T) {
	runDir := filepath.Join(t.TempDir(), "run")
	var backends [2]*Backend
	for i := range backends {
		var err error
		if backends[i], err = New(Options{Guest: guestProgram, RunDir: runDir}); err != nil {
			t.Fatal(err)
		}
	}
	dead, next := backends[0], backends[1]
	s := spec()
	s.Lifetime.Living = true
	if _, err := dead.Create(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dead.In.BoxDir(s.ID), instance.BoxFile)); err != nil {
		t.Fatal(err)
	}
	abandon(t, dead)
	if _, err := next.Reattach(context.Background(), s.ID); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("got %v", err)
	}
	if err := next.Reap(context.Background()); err != nil {
		t.Error(err)
	}
	if left := guestsOf(s.ID, nil); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	for _, dir := range append(dead.In.Tree.Dirs(), dead.In.Dir) {
		isGone(t, dir)
		isGone(t, filepath.Join(dir, string(s.ID)))
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// TestCountsOverRestarts: kills for want of memory are a running total of this sandbox, whoever owns it, and whichever
// sandbox had its control group before.
func TestCountsOverRestarts(t *testing.T) {
	runDir := filepath.Join(t.TempDir(), "run")
	var backends [3]*Backend
	for i := range backends {
		var err error
		if backends[i], err = New(Options{Guest: guestProgram, RunDir: runDir}); err != nil {
			t.Fatal(err)
		}
	}
	runOut := func(box sandbox.Box) { run(t, box, "/usr/bin/tail", "/dev/zero") }
	total := func(box sandbox.Box, want int64) {
		t.Helper()
		if u, err := box.Usage(context.Background()); err != nil || u.OOMKills != want ||
			box.(*Box).OOMKills() != want {
			t.Errorf("%d and %d kills, want %d; %v", u.OOMKills, box.(*Box).OOMKills(), want, err)
		}
	}
	s := spec()
	s.Lifetime.Living = true
	box, err := backends[0].Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if backends[0].In.Tree.Enforcer(cgroup.Memory) == "" {
		backendtest.Skip(t, "limits", "nothing enforces a limit of memory")
	}
	runOut(box)
	total(box, 1)
	dir := backends[0].In.BoxDir(s.ID)
	abandon(t, backends[0])
	// As if the group had been another sandbox's until now: one kill was that one's.
	record, err := instance.ReadBox(dir)
	if err != nil {
		t.Fatal(err)
	}
	record.Before.OOMKills = 1
	if err := record.Write(dir); err != nil {
		t.Fatal(err)
	}
	for i, b := range backends[1:] {
		if box, err = b.Reattach(context.Background(), s.ID); err != nil {
			t.Fatal(err)
		}
		total(box, int64(i))
		runOut(box)
		total(box, int64(i)+1)
		if i == 0 {
			err = b.Close()
		} else {
			err = errors.Join(box.Close(), b.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
	if u, err := box.Usage(context.Background()); err != nil || u.OOMKills != 2 {
		t.Errorf("after the end %d kills, %v", u.OOMKills, err)
	}
}

// TestKillsOfLiving: kills of earlier executions do not count against a living sandbox for ever.
func TestKillsOfLiving(t *testing.T) {
	began := time.Now()
	var living, oneShot kills
	for _, c := range []struct {
		total        int64
		after        time.Duration
		many, always bool
	}{{0, 0, false, false}, {mostKills, time.Second, false, false}, {mostKills + 1, 2 * time.Second, true, true},
		{mostKills + 1, killsWindow, false, true}, {2*mostKills + 1, killsWindow + time.Second, false, true},
		{2*mostKills + 2, killsWindow + 2*time.Second, true, true}} {
		if many := living.tooMany(c.total, true, began.Add(c.after)); many != c.many {
			t.Errorf("living, %d after %v: %t", c.total, c.after, many)
		}
		if many := oneShot.tooMany(c.total, false, began.Add(c.after)); many != c.always {
			t.Errorf("one-shot, %d after %v: %t", c.total, c.after, many)
		}
	}
}

// isGone fails for an existing folder, unless it is a systemd scope with this process in it.
func isGone(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); err != nil {
		return
	}
	if own, err := os.ReadFile("/proc/self/cgroup"); err == nil && strings.Contains(string(own),
		"/"+filepath.Base(dir)) {
		return
	}
	t.Errorf("%s is left", dir)
}

// TestReapCutShort: a box that Reap could not end keeps its folder and record for the next.
func TestReapCutShort(t *testing.T) {
	runDir := filepath.Join(t.TempDir(), "run")
	var backends [2]*Backend
	for i := range backends {
		var err error
		if backends[i], err = New(Options{Guest: guestProgram, RunDir: runDir}); err != nil {
			t.Fatal(err)
		}
	}
	dead, next := backends[0], backends[1]
	box, err := dead.Create(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	dirs := dead.In.Tree.Dirs()
	if len(dirs) == 0 {
		t.Skip("there are no control groups, so nothing that a dead guest leaves can be in use")
	}
	abandon(t, dead)
	group := filepath.Join(dirs[0], string(box.ID()))
	_ = os.WriteFile(filepath.Join(group, "cgroup.max.descendants"), []byte("max"), 0) // v2 alone has it
	busy := filepath.Join(group, "busy")
	if err := os.Mkdir(busy, 0o755); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := next.Reap(canceled); err == nil {
		t.Error("Reap was cut short and reports no error")
	}
	if err := os.Remove(busy); err != nil {
		t.Error(err)
	}
	if err := next.Reap(context.Background()); err != nil {
		t.Error(err)
	}
	if left := guestsOf(box.ID(), nil); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	for _, dir := range append(dirs, dead.In.Dir) {
		isGone(t, dir)
		isGone(t, filepath.Join(dir, string(box.ID())))
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}
