// Package instance lets processes find the sandboxes of other processes. Each instance owns a locked folder, where it
// records resources before it makes them. A process that finds an unlocked folder destroys or takes over its boxes.
package instance

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Instance is one process of ours that makes sandboxes. Its folder is locked as long as it lives:
//
//	RUN/instances/I/lock          held by the process
//	RUN/instances/I/record.json   where its control groups are
//	RUN/instances/I/boxes/ID/     one sandbox; its backend defines the content
//	RUN/instances/I/boxes/ID.lock held by the process that has reattached it (Claims)
//
// A box's folder is made before all its other parts, whose names derive from its ID. So a process that finds the folder
// finds the rest. All of it is on a tmpfs and disappears at a reboot, like the sandboxes; nothing is synced to disk.
type Instance struct {
	Dir  string
	Tree *cgroup.Tree // where its control groups are made; nil if it makes none
	lock *os.File
}

func (in *Instance) BoxDir(id sandbox.ID) string { return filepath.Join(in.Dir, boxesDir, string(id)) }

// Record is what an instance writes before it makes anything outside its folder.
type Record struct {
	PID int `json:"pid"` // of the owner
	// when the owner started, in the kernel's count: its pid alone may have been reused
	Started    string   `json:"started"`
	CgroupDirs []string `json:"cgroup_dirs"`
}

func (r Record) write(run *os.Root, dir string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temporary := path.Join(dir, recordFile+".new")
	if err := run.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return run.Rename(temporary, path.Join(dir, recordFile))
}

// readRecord reads the record of an instance folder below run, which may only have that instance's own control groups.
// fs.ErrNotExist means that the owner died before it wrote one.
func readRecord(run *os.Root, dir, name string) (rec Record, err error) {
	text, err := run.ReadFile(path.Join(dir, recordFile))
	if err != nil {
		return rec, err
	}
	if err = json.Unmarshal(text, &rec); err == nil {
		rec.CgroupDirs, err = cgroup.Recorded(rec.CgroupDirs, func(tree string) bool { return tree == treePrefix+name })
	}
	if err != nil {
		return Record{}, &sandbox.Error{Op: "read " + filepath.Join(run.Name(), filepath.FromSlash(dir), recordFile),
			Err: err, Fix: "find out which program wrote it, then remove its folder"}
	}
	return rec, nil
}

// ownerLives reports whether the process that wrote the record still runs. If that is unknown, the holder of the lock
// is the owner.
func (r Record) ownerLives() bool {
	return !canReadStart || r.PID > 0 && startOf(r.PID) == r.Started && r.Started != ""
}

const (
	instancesDir = "instances"
	boxesDir     = "boxes"
	recordFile   = "record.json"
	lockFile     = "lock"
	treePrefix   = "fumehood-" // of the control groups' name; the instance's name follows
)

// folderOf is an instance's folder relative to the run folder, for os.Root.
func folderOf(name string) string { return path.Join(instancesDir, name) }

// Open makes a locked instance below run, with a place for control groups.
func Open(run string) (*Instance, error) {
	return openWith(run, func(name string, announce func(dir string) error) (*cgroup.Tree, error) {
		return cgroup.Open(treePrefix+name, announce)
	})
}

// OpenWithoutGroups makes a locked instance without control groups.
func OpenWithoutGroups(run string) (*Instance, error) {
	return openWith(run, func(string, func(string) error) (*cgroup.Tree, error) { return nil, nil })
}

func openWith(run string, groups func(name string, announce func(dir string) error) (*cgroup.Tree, error)) (*Instance,
	error) {
	root, err := rundir.Make(run)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := string(sandbox.NewID())[:10]
	in := &Instance{Dir: filepath.Join(root.Name(), instancesDir, name)}
	if in.lock, err = makeFolder(root, folderOf(name)); err != nil {
		return nil, err
	}
	rec := Record{PID: os.Getpid(), Started: startOf(os.Getpid())}
	in.Tree, err = groups(name, func(dir string) error {
		rec.CgroupDirs = append(rec.CgroupDirs, dir)
		return rec.write(root, folderOf(name))
	})
	if err == nil {
		err = rec.write(root, folderOf(name))
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// makeFolder makes and locks an instance's folder. No process searches for dead instances meanwhile, as an unlocked
// folder counts as dead.
func makeFolder(run *os.Root, dir string) (lock *os.File, err error) {
	if err := run.MkdirAll(instancesDir, 0o700); err != nil {
		return nil, err
	}
	making, err := lockMaking(run)
	if err != nil {
		return nil, err
	}
	defer making.Close()
	if err := run.MkdirAll(path.Join(dir, boxesDir), 0o700); err != nil {
		return nil, err
	}
	return openLocked(run, path.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// lockMaking takes the lock for making an instance, or finding a dead one. It is never held for long.
func lockMaking(run *os.Root) (*os.File, error) {
	f, err := openMaking(run)
	if err != nil {
		return nil, err
	}
	for range birthTries {
		if err = filelock.Try(f); !filelock.Held(err) {
			break
		}
		time.Sleep(lockPause)
	}
	if err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return f, nil
}

// openLocked opens and takes an instance's lock. It fails at once, as filelock.Try, if the owner lives.
func openLocked(run *os.Root, name string, flags int) (*os.File, error) {
	f, err := run.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Try(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close releases the instance. Its folder and control groups stay for living boxes, for the next process to find.
func (in *Instance) Close() error {
	var errs []error
	left, _ := os.ReadDir(filepath.Join(in.Dir, boxesDir))
	switch {
	case len(left) > 0:
		in.Tree.DropIdle()
	default:
		if in.Tree != nil {
			errs = append(errs, in.Tree.Close())
		}
		errs = append(errs, in.removeFolder())
	}
	return errors.Join(append(errs, in.lock.Close())...)
}

func (in *Instance) removeFolder() error {
	instances, err := os.OpenRoot(filepath.Dir(in.Dir))
	if err != nil {
		return err
	}
	defer instances.Close()
	return removeFolder(instances, filepath.Base(in.Dir))
}

// removeFolder removes an instance's folder, its record and lock last: by these the next process finds a folder that
// was removed in part.
func removeFolder(root *os.Root, dir string) error {
	found, err := fs.ReadDir(root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range found {
		if e.Name() != lockFile && e.Name() != recordFile {
			err = errors.Join(err, root.RemoveAll(path.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	if err := root.Remove(path.Join(dir, recordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.RemoveAll(dir)
}

// lockDead takes the lock of an instance without an owner. A forked child that has not executed its program yet may
// briefly hold a dead owner's lock, a process that cleans up longer. A held lock means that the owner lives, errBusy
// that another process held the lock at every try. lockDead removes a folder without a lock, whose maker died early.
func lockDead(ctx context.Context, run *os.Root, name string, tries int) (*os.File, error) {
	return lockLeft(ctx, tries, func() (*os.File, error) { return tryDead(run, name) }, func() bool {
		rec, err := readRecord(run, folderOf(name), name)
		return err != nil && !errors.Is(err, fs.ErrNotExist) || rec.ownerLives()
	})
}

// errBusy reports a lock that stayed with another process than the owner.
var errBusy = errors.New("another process is cleaning up")

// lockLeft tries to take a lock that its owner may have left.
func lockLeft(ctx context.Context, tries int, try func() (*os.File, error), ownerLives func() bool) (*os.File, error) {
	for {
		lock, err := try()
		if !filelock.Held(err) || ownerLives() {
			return lock, err
		}
		if tries--; tries <= 0 {
			return nil, errBusy
		}
		select { // without the lock, which makers of instances need
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryDead tries an instance's lock once, while no process can make an instance.
func tryDead(run *os.Root, name string) (*os.File, error) {
	making, err := lockMaking(run)
	if err != nil {
		return nil, err
	}
	defer making.Close()
	lock, err := openLocked(run, path.Join(folderOf(name), lockFile), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, removeLockless(run, name))
	}
	return lock, err
}

// removeLockless removes an instance's folder that was made or removed in part, unless its owner lives or it has boxes.
func removeLockless(run *os.Root, name string) error {
	if rec, err := readRecord(run, folderOf(name), name); err == nil && !rec.ownerLives() {
		return removeEmpty(run, name, rec)
	}
	return removeBare(run, folderOf(name))
}

// removeBare removes an instance's folder without a record, unless it has other content.
func removeBare(run *os.Root, dir string) error {
	made := []string{boxesDir, lockFile, recordFile + ".new"}
	found, err := fs.ReadDir(run.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its owner finished first
	}
	if err != nil || slices.ContainsFunc(found, func(e fs.DirEntry) bool { return !slices.Contains(made, e.Name()) }) {
		return err
	}
	for _, name := range append(made, ".") {
		if err := run.Remove(path.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Numbers of tries for a dead owner's lock, for the making lock, and for the locks of a box to reattach, which a
// process that ends other boxes may hold; and the pause between tries.
const (
	lockTries  = 100
	birthTries = 3 * lockTries
	takeTries  = 10 * lockTries
	lockPause  = 20 * time.Millisecond
)

// OwnerOf reads the record of the instance that made the box in dir, wherever it was reattached.
func OwnerOf(dir string) (Record, error) {
	folder := filepath.Dir(filepath.Dir(dir))
	root, err := os.OpenRoot(folder)
	if err != nil {
		return Record{}, err
	}
	defer root.Close()
	return readRecord(root, ".", filepath.Base(folder))
}

// Abandon drops the lock, like this process's death. For tests.
func (in *Instance) Abandon() error { return in.lock.Close() }
