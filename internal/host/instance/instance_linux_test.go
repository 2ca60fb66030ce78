package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/sandbox"
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

// living makes the folder of a living box.
func living(t *testing.T, in *Instance) (id sandbox.ID, dir string) {
	t.Helper()
	id, dir = box(t, in)
	if err := (Box{Lifetime: sandbox.Lifetime{Living: true}}).Write(dir); err != nil {
		t.Fatal(err)
	}
	return id, dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestReap: a dead instance's boxes are ended, except living ones that live and claimed ones; living instances are left
// alone. The last box's release removes the instance.
func TestReap(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	dead, alive := open(t, run), open(t, run)
	gone, goneDir := box(t, dead)
	over, overDir := living(t, dead)
	lives, livesDir := living(t, dead)
	claimed, _ := living(t, dead)
	neighbour, neighbourDir := box(t, alive)
	if err := dead.Abandon(); err != nil {
		t.Fatal(err)
	}
	var claims, others Claims
	dir, err := claims.Claim(t.Context(), run, claimed)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[sandbox.ID]sandbox.Kind{claimed: sandbox.Exists, neighbour: sandbox.Exists,
		sandbox.NewID():     sandbox.NotFound,
		"../boxes/" + lives: sandbox.Invalid} {
		if _, err := others.Claim(t.Context(), run, id); sandbox.KindOf(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	var calls []sandbox.ID
	r := Reaper{
		Lives: func(_ context.Context, id sandbox.ID, _ Record) (bool, error) { return id == lives, nil },
		End: func(_ context.Context, id sandbox.ID, dir string, owner Record) error {
			for _, dir := range dead.Tree.Dirs() {
				if owner.PID != os.Getpid() || !slices.Contains(owner.CgroupDirs, dir) {
					t.Errorf("the owner is %+v, without %s", owner, dir)
				}
			}
			calls = append(calls, id)
			return os.RemoveAll(dir)
		}}
	want := []sandbox.ID{gone, over}
	slices.Sort(want)
	for range 2 {
		if err := r.Reap(t.Context(), run); err != nil || !slices.Equal(calls, want) {
			t.Errorf("ended %v: %v", calls, err)
		}
	}
	if exists(goneDir) || exists(overDir) || !exists(livesDir) || !exists(dir) || !exists(neighbourDir) {
		t.Error("the wrong boxes are left")
	}
	if owner, err := OwnerOf(dir); err != nil || owner.PID != os.Getpid() {
		t.Errorf("the record of the boxes that are left is gone: %+v, %v", owner, err)
	}
	if err := claims.Close(); err != nil { // as a server ends that leaves its boxes
		t.Error(err)
	}
	for _, id := range []sandbox.ID{claimed, lives} {
		dir, err := others.Claim(t.Context(), run, id)
		if err == nil {
			err = errors.Join(os.RemoveAll(dir), others.Release(t.Context(), dir))
		}
		if err != nil {
			t.Error(err)
		}
	}
	if exists(dead.Dir) {
		t.Error("the instance is left although its last box was released")
	}
	for _, dir := range dead.Tree.Dirs() {
		if exists(dir) && exists(filepath.Join(dir, "tasks")) { // a scope of systemd holds this process itself
			t.Errorf("%s is left", dir)
		}
	}
	if err := os.Remove(neighbourDir); err != nil {
		t.Error(err)
	}
	if err := alive.Close(); err != nil || exists(alive.Dir) {
		t.Errorf("close: %v", err)
	}
}

// TestRecheck: a reaper with Recheck skips an instance with only living boxes, and no other.
func TestRecheck(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	one, two := open(t, run), open(t, run)
	id, dir := living(t, one)
	_, goneDir := box(t, two)
	if err := errors.Join(one.Abandon(), two.Abandon()); err != nil {
		t.Fatal(err)
	}
	lives, looks := true, 0
	r := Reaper{Recheck: time.Hour,
		Lives: func(context.Context, sandbox.ID, Record) (bool, error) { looks++; return lives, nil },
		End: func(_ context.Context, _ sandbox.ID, dir string, _ Record) error {
			return os.RemoveAll(dir)
		}}
	for range 3 {
		if err := r.Reap(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	if looks != 1 || exists(goneDir) || exists(two.Dir) || !exists(dir) {
		t.Errorf("looked %d times at %s", looks, id)
	}
	lives, r.Recheck = false, 0
	if err := r.Reap(t.Context(), run); err != nil || exists(one.Dir) {
		t.Errorf("an ended box is left: %v", err)
	}
}

// TestHasBox: a box exists while its owner lives or it has processes, and its folder alone is no box.
func TestHasBox(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	in := open(t, run)
	defer in.Close()
	if len(cgroupDirs(t, run, in)) == 0 {
		t.Skip("SKIPPED, NOT TESTED: it needs control groups")
	}
	id, dir := box(t, in)
	has := func(want bool) {
		t.Helper()
		if has, err := HasBox(run, id); err != nil || has != want {
			t.Errorf("has a box: %v, %v", has, err)
		}
	}
	has(true) // its owner makes it
	root, err := os.OpenRoot(run)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	rec := Record{PID: os.Getpid(), Started: "before", CgroupDirs: cgroupDirs(t, run, in)} // as of another process
	if err := rec.write(root, folderOf(filepath.Base(in.Dir))); err != nil {
		t.Fatal(err)
	}
	has(false)
	group, err := in.Tree.Create(string(id), cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	has(false)
	child := exec.Command("sleep", "100")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	procs := filepath.Join(rec.CgroupDirs[0], string(id), "cgroup.procs")
	if err := os.WriteFile(procs, fmt.Append(nil, child.Process.Pid), 0); err != nil {
		t.Error(err)
	}
	has(true)
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // it was killed
	has(false)
	if err := errors.Join(group.Remove(t.Context()), os.Remove(dir)); err != nil {
		t.Error(err)
	}
}

// cgroupDirs returns where the control groups of an instance are, by its record.
func cgroupDirs(t *testing.T, run string, in *Instance) []string {
	t.Helper()
	root, err := os.OpenRoot(run)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	rec, err := readRecord(root, folderOf(filepath.Base(in.Dir)), filepath.Base(in.Dir))
	if err != nil {
		t.Fatal(err)
	}
	return rec.CgroupDirs
}

// TestClaimedByOne: of many that claim a box at once, one gets it, also while others reap.
func TestClaimedByOne(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	dead := open(t, run)
	id, _ := living(t, dead)
	if err := dead.Abandon(); err != nil {
		t.Fatal(err)
	}
	r := Reaper{Lives: func(context.Context, sandbox.ID, Record) (bool, error) { return true, nil }}
	var claims [8]Claims
	var owners atomic.Int32
	var all sync.WaitGroup
	for i := range claims {
		all.Go(func() {
			if err := r.Reap(t.Context(), run); err != nil {
				t.Error(err)
			}
			switch dir, err := claims[i].Claim(t.Context(), run, id); {
			case err == nil:
				owners.Add(1)
				if !exists(dir) {
					t.Errorf("%s is not there", dir)
				}
			case sandbox.KindOf(err) != sandbox.Exists:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := owners.Load(); n != 1 {
		t.Errorf("the box has %d owners", n)
	}
	for i := range claims {
		if err := claims[i].Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReapFails: a box that cannot be ended keeps its folder and record, is reported, and blocks no other.
func TestReapFails(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	dead := open(t, run)
	_, dir := box(t, dead)
	_, other := box(t, dead)
	if err := dead.Abandon(); err != nil {
		t.Fatal(err)
	}
	stuck := errors.New("stuck")
	remove := func(_ context.Context, _ sandbox.ID, dir string, _ Record) error { return os.RemoveAll(dir) }
	err := Reaper{End: func(ctx context.Context, id sandbox.ID, at string, owner Record) error {
		if at == dir {
			return stuck
		}
		return remove(ctx, id, at, owner)
	}}.Reap(t.Context(), run)
	if owner, readErr := OwnerOf(dir); !errors.Is(err, stuck) || readErr != nil || owner.PID == 0 || exists(other) {
		t.Errorf("got %v; the record is %+v, %v; the other is left: %t", err, owner, readErr, exists(other))
	}
	if err := (Reaper{End: remove}).Reap(t.Context(), run); err != nil || exists(dead.Dir) {
		t.Errorf("the second time: %v", err)
	}
}

// TestHalfMade: folders whose makers or removers were killed are found at once. A locked folder is still being made,
// and one whose owner lives is being removed.
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
		err = filelock.Try(lock)
	}
	for name, started := range map[string]string{"cut-off": "0", "removing": startOf(os.Getpid())} {
		for _, dir := range []string{boxesDir, "content"} {
			err = errors.Join(err, os.MkdirAll(filepath.Join(folder(name), dir), 0o700))
		}
		record := fmt.Sprintf(`{"pid": %d, "started": %q}`, os.Getpid(), started)
		err = errors.Join(err, os.WriteFile(filepath.Join(folder(name), recordFile), []byte(record), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	end := func(context.Context, sandbox.ID, string, Record) error { return errors.New("there is no box") }
	if err := (Reaper{End: end}).Reap(t.Context(), run); err != nil {
		t.Error(err)
	}
	for name, stays := range map[string]bool{"empty": false, "unlocked": false, "locked": true, "cut-off": false,
		"removing": true} {
		if exists(folder(name)) != stays {
			t.Errorf("%s: %t", name, !stays)
		}
	}
}

// TestHalfRemoved: the next process finds the folder of an instance whose removal was cut off.
func TestHalfRemoved(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	in := open(t, run)
	busy := filepath.Join(in.Dir, "busy") // a mount point cannot be removed, so the removal fails here
	if err := os.Mkdir(busy, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("instance-test", busy, "tmpfs", 0, ""); err != nil {
		in.Close()
		t.Skipf("SKIPPED, NOT TESTED: no mount: %v", err)
	}
	if err := in.Close(); err == nil {
		t.Error("a mount point was removed")
	}
	if err := syscall.Unmount(busy, 0); err != nil {
		t.Fatal(err)
	}
	end := func(context.Context, sandbox.ID, string, Record) error { return errors.New("there is no box") }
	if err := (Reaper{End: end}).Reap(t.Context(), run); err != nil || exists(in.Dir) {
		t.Errorf("%v; it is left: %t", err, exists(in.Dir))
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
				if err := (Reaper{End: end}).Reap(context.Background(), run); err != nil {
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
