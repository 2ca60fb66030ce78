package instance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/sandbox"
)

func open(t *testing.T, run string) *Instance {
	t.Helper()
	in, err := Open(run)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// box makes a box's folder, which is made before anything else of a box.
func box(t *testing.T, in *Instance) (id sandbox.ID, dir string) {
	t.Helper()
	id = sandbox.NewID()
	dir = in.BoxDir(id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return id, dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestReap: a dead instance's boxes are ended, kept ones are returned, and living instances are left alone.
func TestReap(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	dead, alive := open(t, run), open(t, run)
	ended, endedDir := box(t, dead)
	kept, keptDir := box(t, dead)
	_, neighbour := box(t, alive)
	if err := dead.Abandon(); err != nil {
		t.Fatal(err)
	}
	var calls []sandbox.ID
	end := func(_ context.Context, id sandbox.ID, dir string, owner Record) error {
		for _, dir := range dead.Tree.Dirs() { // a scope of systemd ends with its last process
			if owner.PID != os.Getpid() || !slices.Contains(owner.CgroupDirs, dir) && (exists(dir) || !strings.HasSuffix(dir, ".scope")) {
				t.Errorf("the owner is %+v, without %s", owner, dir)
			}
		}
		calls = append(calls, id)
		return os.RemoveAll(dir)
	}
	left, err := Reap(context.Background(), run, map[sandbox.ID]bool{kept: true}, end)
	if err != nil || len(left) != 1 || left[0] != keptDir || len(calls) != 1 || calls[0] != ended {
		t.Errorf("kept %v, ended %v: %v", left, calls, err)
	}
	if owner, err := OwnerOf(keptDir); err != nil || owner.PID != os.Getpid() {
		t.Errorf("the record of the box that is kept is gone: %+v, %v", owner, err)
	}
	if exists(endedDir) || !exists(neighbour) {
		t.Error("the wrong boxes are left")
	}
	if left, err := Reap(context.Background(), run, nil, end); err != nil || len(left) != 0 || exists(dead.Dir) {
		t.Errorf("the second time: %v, %v", left, err)
	}
	for _, dir := range dead.Tree.Dirs() {
		if exists(dir) && exists(filepath.Join(dir, "tasks")) { // a scope of systemd holds this process itself
			t.Errorf("%s is left", dir)
		}
	}
	if err := os.Remove(neighbour); err != nil {
		t.Error(err)
	}
	if err := alive.Close(); err != nil || exists(alive.Dir) {
		t.Errorf("close: %v", err)
	}
}

// TestReapFails: a box that cannot be ended keeps its folder and record.
func TestReapFails(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	dead := open(t, run)
	_, dir := box(t, dead)
	if err := dead.Abandon(); err != nil {
		t.Fatal(err)
	}
	stuck := errors.New("stuck")
	_, err := Reap(context.Background(), run, nil, func(context.Context, sandbox.ID, string, Record) error { return stuck })
	if owner, readErr := OwnerOf(dir); !errors.Is(err, stuck) || readErr != nil || owner.PID == 0 {
		t.Errorf("got %v; the record is %+v, %v", err, owner, readErr)
	}
	if _, err := Reap(context.Background(), run, nil, func(_ context.Context, _ sandbox.ID, dir string, _ Record) error { return os.RemoveAll(dir) }); err != nil || exists(dead.Dir) {
		t.Errorf("the second time: %v", err)
	}
}

// TestHalfMade: folders whose makers were killed are found at once; a locked folder is still being made.
func TestHalfMade(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	folder := func(name string) string { return filepath.Join(run, instancesDir, name) }
	for _, dir := range []string{folder("empty"), filepath.Join(folder("unlocked"), boxesDir), folder("locked")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := os.Create(filepath.Join(folder("locked"), lockFile))
	if err == nil {
		err = tryLock(lock)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	end := func(context.Context, sandbox.ID, string, Record) error { return errors.New("there is no box") }
	if _, err := Reap(context.Background(), run, nil, end); err != nil {
		t.Error(err)
	}
	for name, stays := range map[string]bool{"empty": false, "unlocked": false, "locked": true} {
		if exists(folder(name)) != stays {
			t.Errorf("%s: %t", name, !stays)
		}
	}
}

// TestOpenRefuses a folder that others can write to: they could plant boxes in it.
func TestOpenRefuses(t *testing.T) {
	run := t.TempDir()
	if err := os.Chmod(run, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(run); sandbox.KindOf(err) != sandbox.Unavailable || sandbox.FixOf(err) == "" {
		t.Errorf("got %v", err)
	}
}

// TestCloseWhileOthersReap: a search for dead instances does not disturb one that closes.
func TestCloseWhileOthersReap(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	done := make(chan struct{})
	var reaping sync.WaitGroup
	for range 2 {
		reaping.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				end := func(context.Context, sandbox.ID, string, Record) error { return nil }
				if _, err := Reap(context.Background(), run, nil, end); err != nil {
					t.Error(err)
				}
			}
		})
	}
	opens := 50
	if testing.Short() {
		opens = 15
	}
	for range opens {
		if err := open(t, run).Close(); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	reaping.Wait()
}

// TestRecoverBesideOneThatStays: a box that cannot be ended blocks no other, and is reported.
func TestRecoverBesideOneThatStays(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	dead := open(t, run)
	_, stays := box(t, dead)
	kept, keptDir := box(t, dead)
	if err := dead.Abandon(); err != nil {
		t.Fatal(err)
	}
	hangs := errors.New("it hangs")
	var taken []string
	r := Recovery{Run: run, Keep: []sandbox.ID{kept}, At: func(_ string, err error) error { return err },
		End: func(context.Context, sandbox.ID, string, Record) error { return hangs },
		Reattach: func(_ context.Context, dir string) (sandbox.Box, error) {
			taken = append(taken, dir)
			return nil, os.RemoveAll(dir)
		}}
	boxes, err := Recover(context.Background(), r)
	if len(boxes) != 1 || !errors.Is(err, hangs) || !slices.Equal(taken, []string{keptDir}) || !exists(stays) {
		t.Errorf("boxes %v, taken %v, left %v: %v", boxes, taken, exists(stays), err)
	}
	r.End = func(_ context.Context, _ sandbox.ID, dir string, _ Record) error { return os.RemoveAll(dir) }
	if _, err := Recover(context.Background(), r); err != nil || exists(dead.Dir) {
		t.Errorf("the next time: %v, left %v", err, exists(dead.Dir))
	}
}
