package native

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// abandon drops an instance's lock, as its process's death would. Starting children would die too, and hold the lock between
// fork and exec.
func abandon(t *testing.T, b *Backend) {
	t.Helper()
	b.templates.close()
	if err := b.in.Abandon(); err != nil {
		t.Fatal(err)
	}
}

// TestRecover abandons an instance as kill -9 would, and lets another clean up after it. A living neighbour is left alone.
func TestRecover(t *testing.T) {
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
		if _, err := next.Recover(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if left := guestsOf(orphan.Sandbox); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	for _, dir := range dead.in.Tree.Dirs() {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
	if _, err := os.Stat(dead.in.Dir); err == nil {
		t.Errorf("%s is left", dead.in.Dir)
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

// TestReattach abandons a living sandbox as a dead server would; the next one reattaches it, with its content and processes.
func TestReattach(t *testing.T) {
	runDir := filepath.Join(t.TempDir(), "run")
	newBackend := func() *Backend {
		b, err := New(Options{Guest: guestProgram, RunDir: runDir})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	dead, next := newBackend(), newBackend()
	s := spec()
	s.Lifetime.Living = true
	old, err := dead.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	run(t, old, "/bin/sh", "-c", "echo kept > /workspace/file")
	gone := spec()
	gone.Lifetime.Living = true
	forgotten, err := dead.Create(context.Background(), gone)
	if err != nil {
		t.Fatal(err)
	}
	abandon(t, dead)

	boxes, err := next.Recover(context.Background(), []sandbox.ID{s.ID, sandbox.NewID()})
	if err != nil || len(boxes) != 1 || boxes[0].ID() != s.ID {
		t.Fatalf("got %v, %v", boxes, err)
	}
	if left := guestsOf(forgotten.ID()); len(left) > 0 {
		t.Errorf("a box that was not to be kept has processes %v", left)
	}
	box := boxes[0]
	if o := run(t, box, "/bin/cat", "/workspace/file"); o.stdout != "kept\n" {
		t.Errorf("got %+v", o)
	}
	if u, err := box.Usage(context.Background()); err != nil || u.MemoryNow <= 0 && len(accepted()) == 0 {
		t.Errorf("got %+v, %v", u, err)
	}
	if box.Effective().Backend != Name {
		t.Errorf("got %+v", box.Effective())
	}
	if again, err := next.Recover(context.Background(), []sandbox.ID{s.ID}); err != nil || len(again) != 0 {
		t.Errorf("a second recovery: %v, %v", again, err)
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	if left := guestsOf(s.ID); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	for _, dir := range dead.in.Tree.Dirs() {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}

// TestRecoverReattached: a reattached box stays in the control groups of its first server. When the second dies too, the
// third still removes them all, and those of a living box without its own record.
func TestRecoverReattached(t *testing.T) {
	runDir := filepath.Join(t.TempDir(), "run")
	newBackend := func() *Backend {
		b, err := New(Options{Guest: guestProgram, RunDir: runDir})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first, second, third := newBackend(), newBackend(), newBackend()
	living := func() sandbox.Spec {
		s := spec()
		s.Lifetime.Living = true
		return s
	}
	kept, unrecorded := living(), living()
	for _, s := range []sandbox.Spec{kept, unrecorded} {
		if _, err := first.Create(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(first.in.BoxDir(unrecorded.ID), instance.BoxFile)); err != nil {
		t.Fatal(err)
	}
	abandon(t, first)
	boxes, err := second.Recover(context.Background(), []sandbox.ID{kept.ID, unrecorded.ID})
	if err == nil || len(boxes) != 1 || boxes[0].ID() != kept.ID {
		t.Fatalf("got %v, %v", boxes, err)
	}
	abandon(t, second)
	for range 2 {
		if _, err := third.Recover(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if left := append(guestsOf(kept.ID), guestsOf(unrecorded.ID)...); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	for _, b := range []*Backend{first, second} {
		for _, dir := range append(b.in.Tree.Dirs(), b.in.Dir) {
			isGone(t, dir)
			isGone(t, filepath.Join(dir, string(kept.ID)))
			isGone(t, filepath.Join(dir, string(unrecorded.ID)))
		}
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
}

// isGone fails for an existing folder, unless it is a systemd scope with this process in it.
func isGone(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); err != nil {
		return
	}
	if own, err := os.ReadFile("/proc/self/cgroup"); err == nil && strings.Contains(string(own), "/"+filepath.Base(dir)) {
		return
	}
	t.Errorf("%s is left", dir)
}

// TestRecoverCutShort: a box that a recovery could not end keeps its folder and record for the next.
func TestRecoverCutShort(t *testing.T) {
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
	dirs := dead.in.Tree.Dirs()
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
	if _, err := next.Recover(canceled, nil); err == nil {
		t.Error("a recovery that was cut short tells of no error")
	}
	if err := os.Remove(busy); err != nil {
		t.Error(err)
	}
	if _, err := next.Recover(context.Background(), nil); err != nil {
		t.Error(err)
	}
	if left := guestsOf(box.ID()); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	for _, dir := range append(dirs, dead.in.Dir) {
		isGone(t, dir)
		isGone(t, filepath.Join(dir, string(box.ID())))
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}
