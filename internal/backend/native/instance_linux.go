package native

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// An instance is one process of ours that makes sandboxes. Its folder is locked for as long as it lives:
//
//	RUN/uids/N            claims of host user ids
//	RUN/instances/I/lock  held by the process
//	RUN/instances/I/record.json   where its control groups are
//	RUN/instances/I/boxes/ID/     one sandbox: s, the guest's socket; box.json, of a living one
//
// The folder of a box is made before anything else of it, and the name of everything else derives from its ID. So whoever finds
// a folder can find the rest. All of it lies on a tmpfs and is gone after a reboot, as are the sandboxes; nothing is synced to disk.
type instance struct {
	dir  string
	lock *os.File
	tree *cgroup.Tree
}

// record is what an instance writes down before it makes anything outside of its folder.
type record struct {
	PID        int      `json:"pid"`     // of the owner
	Started    string   `json:"started"` // when the owner was started, as the kernel counts; a pid alone may be another process's by now
	CgroupDirs []string `json:"cgroup_dirs"`
}

func (r record) write(dir string) error {
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

func readRecord(dir string) (rec record, err error) {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		return rec, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &rec)
	}
	return rec, err
}

// ownerLives says whether the process that wrote the record still runs.
func (r record) ownerLives() bool { return r.PID > 0 && startOf(r.PID) == r.Started && r.Started != "" }

const (
	instancesDir = "instances"
	uidsDir      = "uids"
	boxesDir     = "boxes"
	recordFile   = "record.json"
	boxFile      = "box.json"
	socketFile   = "s"
)

// openInstance makes a locked instance of our own below run.
func openInstance(run string) (*instance, error) {
	for _, sub := range []string{instancesDir, uidsDir} {
		if err := os.MkdirAll(filepath.Join(run, sub), 0o700); err != nil {
			return nil, err
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(run, &st); err != nil {
		return nil, err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "native: open " + run,
			Msg: "the folder must belong to this user and be closed to all others", Mend: "remove it, or set its mode to 0700"}
	}
	name := string(sandbox.NewID())[:10]
	in := &instance{dir: filepath.Join(run, instancesDir, name)}
	if err := in.make(run); err != nil {
		return nil, err
	}
	rec := record{PID: os.Getpid(), Started: startOf(os.Getpid())}
	var err error
	in.tree, err = cgroup.Open("glovebox-"+name, func(dir string) error {
		rec.CgroupDirs = append(rec.CgroupDirs, dir)
		return rec.write(in.dir)
	})
	if err == nil {
		err = rec.write(in.dir)
	}
	if err != nil {
		return nil, errors.Join(err, in.close())
	}
	return in, nil
}

// make makes the instance's folder and locks it, while no other process looks for dead ones: a folder that nobody has locked is dead.
func (in *instance) make(run string) error {
	births, err := lockBirths(run)
	if err != nil {
		return err
	}
	defer births.Close()
	if err := os.MkdirAll(filepath.Join(in.dir, boxesDir), 0o700); err != nil {
		return err
	}
	in.lock, err = lockInstance(in.dir)
	return err
}

// lockBirths takes the lock that is held while an instance is made or found dead. Nobody holds it for long.
func lockBirths(run string) (*os.File, error) {
	f, err := os.Open(filepath.Join(run, instancesDir))
	if err != nil {
		return nil, err
	}
	for range birthTries {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
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

// lockInstance takes the lock of an instance folder, or fails at once with EWOULDBLOCK where its owner lives.
func lockInstance(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// close gives the instance up. Boxes that still live keep its folder, for the next process to find.
func (in *instance) close() error {
	var errs []error
	if left, _ := os.ReadDir(filepath.Join(in.dir, boxesDir)); len(left) == 0 {
		if in.tree != nil {
			errs = append(errs, in.tree.Close())
		}
		errs = append(errs, os.RemoveAll(in.dir))
	}
	return errors.Join(append(errs, in.lock.Close())...)
}

// reap destroys what instances without an owner left, but for the boxes in keep, whose folders it returns. An instance whose owner
// lives is left alone.
func reap(ctx context.Context, run string, keep map[sandbox.ID]bool) ([]string, error) {
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
		left, err := reapInstance(ctx, dir, keep)
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
		lock, err := lockInstance(dir)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) || tries == lockTries {
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

func reapInstance(ctx context.Context, dir string, keep map[sandbox.ID]bool) (kept []string, err error) {
	rec, err := readRecord(dir)
	if err != nil {
		return nil, &sandbox.Error{Op: "native: read record of " + dir, Err: err}
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
		errs = append(errs, reapBox(ctx, id, box, rec))
	}
	if err := errors.Join(errs...); err != nil || len(kept) > 0 {
		return kept, err // the record stays for who comes next
	}
	for _, d := range rec.CgroupDirs {
		cgroup.RemoveTree(d)
	}
	return nil, os.RemoveAll(dir)
}

// reapBox ends one box of a dead owner. Its guest has most likely ended by itself: it holds a lifeline or a lease. The groups of a box
// that the owner had taken back lie where its own record says, not where the owner made groups. What cannot be ended keeps its folder, by
// which the next recovery finds it.
func reapBox(ctx context.Context, id sandbox.ID, dir string, owner record) error {
	dirs := owner.CgroupDirs
	if box, err := readBoxRecord(dir); err == nil {
		dirs = box.CgroupDirs
	}
	group := cgroup.Find(dirs, string(id))
	for _, pid := range guestsOf(id) {
		killAndWait(ctx, pid)
	}
	group.Kill()
	if err := group.Remove(ctx); err != nil {
		return err
	}
	if len(guestsOf(id)) > 0 { // without control groups nothing else tells
		return &sandbox.Error{Op: "native: end sandbox " + string(id), Msg: "its processes do not die"}
	}
	for _, d := range dirs {
		cgroup.RemoveTree(d)
	}
	return os.RemoveAll(dir)
}
