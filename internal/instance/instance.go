// Package instance is how processes of ours that make sandboxes know of each other: each owns a locked folder, and writes down there
// what it is about to make outside of it. Whoever finds a folder that nobody has locked destroys, or takes over, what is left.
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

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/internal/rundir"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Instance is one process of ours that makes sandboxes. Its folder is locked for as long as it lives:
//
//	RUN/instances/I/lock  held by the process
//	RUN/instances/I/record.json   where its control groups are
//	RUN/instances/I/boxes/ID/     one sandbox; what it holds is its backend's
//
// The folder of a box is made before anything else of it, and the name of everything else derives from its ID. So whoever finds
// a folder can find the rest. All of it lies on a tmpfs and is gone after a reboot, as are the sandboxes; nothing is synced to disk.
type Instance struct {
	Dir  string
	Tree *cgroup.Tree // where its control groups are made; nil for one that has none of its own
	lock *os.File
}

// BoxDir is the folder of one sandbox.
func (in *Instance) BoxDir(id sandbox.ID) string { return filepath.Join(in.Dir, boxesDir, string(id)) }

// Record is what an instance writes down before it makes anything outside of its folder.
type Record struct {
	PID        int      `json:"pid"`     // of the owner
	Started    string   `json:"started"` // when the owner was started, as the kernel counts; a pid alone may be another process's by now
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

// readRecord reads the record in the folder of an instance, which lies below run. It is believed only where its control groups are that
// instance's own. fs.ErrNotExist is one whose owner died before it wrote any down.
func readRecord(run *os.Root, dir, name string) (rec Record, err error) {
	text, err := run.ReadFile(path.Join(dir, recordFile))
	if err != nil {
		return rec, err
	}
	if err = json.Unmarshal(text, &rec); err == nil {
		rec.CgroupDirs, err = cgroup.Recorded(rec.CgroupDirs, func(tree string) bool { return tree == treePrefix+name })
	}
	if err != nil {
		return Record{}, &sandbox.Error{Op: "read " + filepath.Join(run.Name(), filepath.FromSlash(dir), recordFile), Err: err, Fix: "see what wrote it, and remove its folder"}
	}
	return rec, nil
}

// ownerLives says whether the process that wrote the record still runs. Where nobody can tell, whoever holds the lock is the owner.
func (r Record) ownerLives() bool {
	return !tellsStarts || r.PID > 0 && startOf(r.PID) == r.Started && r.Started != ""
}

const (
	instancesDir = "instances"
	boxesDir     = "boxes"
	recordFile   = "record.json"
	lockFile     = "lock"
	treePrefix   = "glovebox-" // of the name of its control groups, before that of the instance
)

// folderOf is the folder of an instance below the run folder, as os.Root has it.
func folderOf(name string) string { return path.Join(instancesDir, name) }

// Open makes a locked instance of our own below run, and in it a place for control groups.
func Open(run string) (*Instance, error) {
	return openWith(run, func(name string, announce func(dir string) error) (*cgroup.Tree, error) {
		return cgroup.Open(treePrefix+name, announce)
	})
}

// OpenWithoutGroups makes a locked instance whose sandboxes are in control groups that somebody else makes.
func OpenWithoutGroups(run string) (*Instance, error) {
	return openWith(run, func(string, func(string) error) (*cgroup.Tree, error) { return nil, nil })
}

func openWith(run string, groups func(name string, announce func(dir string) error) (*cgroup.Tree, error)) (*Instance, error) {
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

// makeFolder makes an instance's folder and locks it, while no other process looks for dead ones: a folder that nobody has locked is dead.
func makeFolder(run *os.Root, dir string) (lock *os.File, err error) {
	if err := run.MkdirAll(instancesDir, 0o700); err != nil {
		return nil, err
	}
	births, err := lockBirths(run)
	if err != nil {
		return nil, err
	}
	defer births.Close()
	if err := run.MkdirAll(path.Join(dir, boxesDir), 0o700); err != nil {
		return nil, err
	}
	return openLocked(run, path.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// lockBirths takes the lock that is held while an instance is made or found dead. Nobody holds it for long.
func lockBirths(run *os.Root) (*os.File, error) {
	f, err := openBirths(run)
	if err != nil {
		return nil, err
	}
	for range birthTries {
		if err = tryLock(f); !errors.Is(err, errLocked) {
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

// openLocked opens the lock of an instance and takes it, or fails at once with errLocked where its owner lives.
func openLocked(run *os.Root, name string, flags int) (*os.File, error) {
	f, err := run.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close gives the instance up. Boxes that still live keep its folder, for the next process to find.
func (in *Instance) Close() error {
	var errs []error
	if left, _ := os.ReadDir(filepath.Join(in.Dir, boxesDir)); len(left) == 0 {
		if in.Tree != nil {
			errs = append(errs, in.Tree.Close())
		}
		errs = append(errs, os.RemoveAll(in.Dir))
	}
	return errors.Join(append(errs, in.lock.Close())...)
}

// Ender ends one box of a dead owner, and frees all that it held but for what its folder's removal frees.
type Ender func(ctx context.Context, id sandbox.ID, dir string, owner Record) error

// Reap ends what instances without an owner left, but for the boxes in keep, whose folders it returns. An instance whose owner lives is
// left alone. What cannot be ended keeps its folder and its record, for who comes next; what has no record is none of ours.
func Reap(ctx context.Context, run string, keep map[sandbox.ID]bool, end Ender) ([]string, error) {
	root, err := rundir.Open(run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	found, err := fs.ReadDir(root.FS(), instancesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept []string
	var errs []error
	for _, entry := range found {
		if !entry.IsDir() {
			continue
		}
		lock, err := lockDead(ctx, root, entry.Name())
		if err != nil {
			continue
		}
		left, err := reap(ctx, root, entry.Name(), keep, end)
		kept = append(kept, left...)
		errs = append(errs, err)
		lock.Close()
	}
	return kept, errors.Join(errs...)
}

// lockDead takes the lock of an instance that has no owner. A dead owner's lock may be held for a moment yet by a child that was forked
// and has not executed its program, and for longer by another process that cleans up after it. A folder without a lock, whose maker died over
// it, is removed.
func lockDead(ctx context.Context, run *os.Root, name string) (*os.File, error) {
	for tries := 0; ; tries++ {
		lock, err := tryDead(run, name)
		if !errors.Is(err, errLocked) || tries == lockTries {
			return lock, err
		}
		rec, readErr := readRecord(run, folderOf(name), name)
		if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) || rec.ownerLives() {
			return nil, err
		}
		select { // without the lock of births, which others want
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryDead tries an instance's lock once, while no process makes an instance.
func tryDead(run *os.Root, name string) (*os.File, error) {
	births, err := lockBirths(run)
	if err != nil {
		return nil, err
	}
	defer births.Close()
	lock, err := openLocked(run, path.Join(folderOf(name), lockFile), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, removeBare(run, folderOf(name)))
	}
	return lock, err
}

// removeBare removes the folder of an instance that had no record yet. It holds nothing of anybody's then: one that does stays as it is.
func removeBare(run *os.Root, dir string) error {
	made := []string{boxesDir, lockFile, recordFile + ".new"}
	found, err := fs.ReadDir(run.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its owner was quicker
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

// A dead owner's lock is tried for so often, that of births so often, with so long between.
const (
	lockTries  = 100
	birthTries = 3 * lockTries
	lockPause  = 20 * time.Millisecond
)

func reap(ctx context.Context, run *os.Root, name string, keep map[sandbox.ID]bool, end Ender) (kept []string, err error) {
	dir := folderOf(name)
	rec, err := readRecord(run, dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, removeBare(run, dir)
	}
	if err != nil {
		return nil, err
	}
	boxes, err := fs.ReadDir(run.FS(), path.Join(dir, boxesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var errs []error
	for _, b := range boxes {
		id, err := sandbox.ParseID(b.Name())
		if err != nil || !b.IsDir() {
			continue
		}
		box := filepath.Join(run.Name(), instancesDir, name, boxesDir, b.Name())
		if keep[id] {
			kept = append(kept, box)
			continue
		}
		errs = append(errs, end(ctx, id, box, rec))
	}
	if err := errors.Join(errs...); err != nil || len(kept) > 0 {
		return kept, err // the record stays for who comes next
	}
	for _, d := range rec.CgroupDirs {
		cgroup.RemoveTree(d)
	}
	return nil, run.RemoveAll(dir)
}

// OwnerOf reads what the instance wrote down that made the box in dir.
func OwnerOf(dir string) (Record, error) {
	folder := filepath.Dir(filepath.Dir(dir))
	root, err := os.OpenRoot(folder)
	if err != nil {
		return Record{}, err
	}
	defer root.Close()
	return readRecord(root, ".", filepath.Base(folder))
}

// Abandon drops the lock, as the death of this process would. It is for tests.
func (in *Instance) Abandon() error { return in.lock.Close() }
