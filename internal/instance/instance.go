// Package instance is how processes of ours that make sandboxes know of each other: each owns a locked folder, and writes down there
// what it is about to make outside of it. Whoever finds a folder that nobody has locked destroys, or takes over, what is left.
package instance

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
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

func (r Record) write(dir string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temporary := filepath.Join(dir, recordFile+".new")
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, recordFile))
}

func readRecord(dir string) (rec Record, err error) {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		return rec, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &rec)
	}
	return rec, err
}

// ownerLives says whether the process that wrote the record still runs. Where nobody can tell, whoever holds the lock is the owner.
func (r Record) ownerLives() bool {
	return !tellsStarts || r.PID > 0 && startOf(r.PID) == r.Started && r.Started != ""
}

const (
	instancesDir = "instances"
	boxesDir     = "boxes"
	recordFile   = "record.json"
)

// Open makes a locked instance of our own below run, and in it a place for control groups.
func Open(run string) (*Instance, error) {
	return openWith(run, func(name string, announce func(dir string) error) (*cgroup.Tree, error) {
		return cgroup.Open("glovebox-"+name, announce)
	})
}

// OpenWithoutGroups makes a locked instance whose sandboxes are in control groups that somebody else makes.
func OpenWithoutGroups(run string) (*Instance, error) {
	return openWith(run, func(string, func(string) error) (*cgroup.Tree, error) { return nil, nil })
}

func openWith(run string, groups func(name string, announce func(dir string) error) (*cgroup.Tree, error)) (*Instance, error) {
	if err := os.MkdirAll(filepath.Join(run, instancesDir), 0o700); err != nil {
		return nil, err
	}
	private, err := isPrivate(run)
	if err != nil {
		return nil, err
	}
	if !private {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "open " + run,
			Msg: "the folder must belong to this user and be closed to all others", Mend: "remove it, or set its mode to 0700"}
	}
	name := string(sandbox.NewID())[:10]
	in := &Instance{Dir: filepath.Join(run, instancesDir, name)}
	if err := in.make(run); err != nil {
		return nil, err
	}
	rec := Record{PID: os.Getpid(), Started: startOf(os.Getpid())}
	in.Tree, err = groups(name, func(dir string) error {
		rec.CgroupDirs = append(rec.CgroupDirs, dir)
		return rec.write(in.Dir)
	})
	if err == nil {
		err = rec.write(in.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// make makes the instance's folder and locks it, while no other process looks for dead ones: a folder that nobody has locked is dead.
func (in *Instance) make(run string) error {
	births, err := lockBirths(run)
	if err != nil {
		return err
	}
	defer births.Close()
	if err := os.MkdirAll(filepath.Join(in.Dir, boxesDir), 0o700); err != nil {
		return err
	}
	in.lock, err = lockFolder(in.Dir)
	return err
}

// lockBirths takes the lock that is held while an instance is made, removed or found dead. Nobody holds it for long.
func lockBirths(run string) (*os.File, error) {
	f, err := openBirths(filepath.Join(run, instancesDir))
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

// lockFolder takes the lock of an instance folder, or fails at once with errLocked where its owner lives.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
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
		errs = append(errs, in.remove())
	}
	return errors.Join(append(errs, in.lock.Close())...)
}

// remove removes the instance's folder while no other process looks for dead ones: such a one makes the lock anew that it misses,
// and the folder would not be empty.
func (in *Instance) remove() error {
	births, err := lockBirths(filepath.Dir(filepath.Dir(in.Dir)))
	if err == nil {
		defer births.Close()
	}
	return os.RemoveAll(in.Dir) // also where that lock could not be had
}

// Ender ends one box of a dead owner, and frees all that it held but for what its folder's removal frees.
type Ender func(ctx context.Context, id sandbox.ID, dir string, owner Record) error

// Reap ends what instances without an owner left, but for the boxes in keep, whose folders it returns. An instance whose owner lives is
// left alone. What cannot be ended keeps its folder and its record, for who comes next.
func Reap(ctx context.Context, run string, keep map[sandbox.ID]bool, end Ender) ([]string, error) {
	found, err := os.ReadDir(filepath.Join(run, instancesDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept []string
	var errs []error
	for _, entry := range found {
		dir := filepath.Join(run, instancesDir, entry.Name())
		lock, err := lockDead(ctx, run, dir)
		if err != nil {
			continue
		}
		left, err := reap(ctx, dir, keep, end)
		kept = append(kept, left...)
		errs = append(errs, err)
		lock.Close()
	}
	return kept, errors.Join(errs...)
}

// lockDead takes the lock of an instance that has no owner. A dead owner's lock may be held for a moment yet by a child that was forked
// and has not executed its program.
func lockDead(ctx context.Context, run, dir string) (*os.File, error) {
	births, err := lockBirths(run)
	if err != nil {
		return nil, err
	}
	defer births.Close()
	for tries := 0; ; tries++ {
		lock, err := lockFolder(dir)
		if err == nil || !errors.Is(err, errLocked) || tries == lockTries {
			return lock, err
		}
		rec, readErr := readRecord(dir)
		if readErr != nil || rec.ownerLives() {
			return nil, err
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A dead owner's lock is tried for so often, that of births so often, with so long between.
const (
	lockTries  = 100
	birthTries = 3 * lockTries
	lockPause  = 20 * time.Millisecond
)

func reap(ctx context.Context, dir string, keep map[sandbox.ID]bool, end Ender) (kept []string, err error) {
	rec, err := readRecord(dir)
	if err != nil {
		return nil, &sandbox.Error{Op: "read record of " + dir, Err: err}
	}
	boxes, err := os.ReadDir(filepath.Join(dir, boxesDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var errs []error
	for _, b := range boxes {
		id, err := sandbox.ParseID(b.Name())
		if err != nil {
			continue
		}
		box := filepath.Join(dir, boxesDir, b.Name())
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
	return nil, os.RemoveAll(dir)
}

// OwnerOf reads what the instance wrote down that made the box in dir.
func OwnerOf(dir string) (Record, error) { return readRecord(filepath.Dir(filepath.Dir(dir))) }

// Abandon drops the lock, as the death of this process would. It is for tests.
func (in *Instance) Abandon() error { return in.lock.Close() }
