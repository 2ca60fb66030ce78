package instance

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Reaper is a backend's part in ending the boxes of dead instances.
type Reaper struct {
	// Lives reports whether the guest of a living box runs.
	Lives func(ctx context.Context, id sandbox.ID, owner Record) (bool, error)

	// Recheck is how long an instance is skipped after a Reap of any process found only living boxes in it; 0 checks
	// all instances.
	Recheck time.Duration

	// End ends one box and frees its resources and its folder.
	End func(ctx context.Context, id sandbox.ID, dir string, owner Record) error
}

// Reap ends the boxes of dead instances, except living boxes with a running guest, and boxes that a living process has
// reattached. It ignores instances with a living owner. A box that does not end keeps its folder and record for the
// next process. A folder without a record is not ours.
func (r Reaper) Reap(ctx context.Context, run string) error {
	root, err := rundir.Open(run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	found, err := fs.ReadDir(root.FS(), instancesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range found {
		if !entry.IsDir() || r.checked(root, entry.Name()) {
			continue
		}
		lock, err := lockDead(ctx, root, entry.Name(), lockTries)
		if err != nil {
			continue
		}
		errs = append(errs, r.instance(ctx, root, entry.Name()))
		lock.Close()
	}
	return errors.Join(errs...)
}

// instance reaps one dead instance, whose lock is held.
func (r Reaper) instance(ctx context.Context, run *os.Root, name string) error {
	dir := folderOf(name)
	rec, err := readRecord(run, dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return removeBare(run, dir)
	}
	if err != nil {
		return err
	}
	boxes, err := boxesOf(run, name)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range boxes {
		errs = append(errs, r.box(ctx, run, name, id, rec))
	}
	err = errors.Join(append(errs, removeEmpty(run, name, rec))...)
	if err == nil {
		err = noteChecked(run, dir)
	}
	return err
}

// checkedFile is in the folder of a dead instance that has living boxes only. Its time is that of the last check.
const checkedFile = "checked"

// checked reports whether a process checked an instance within r.Recheck.
func (r Reaper) checked(run *os.Root, name string) bool {
	if r.Recheck == 0 {
		return false
	}
	info, err := run.Lstat(path.Join(folderOf(name), checkedFile))
	if err != nil {
		return false
	}
	age := time.Since(info.ModTime())
	return age >= 0 && age < r.Recheck
}

// noteChecked records the time of a check, if the instance still exists.
func noteChecked(run *os.Root, dir string) error {
	name, now := path.Join(dir, checkedFile), time.Now()
	err := run.Chtimes(name, now, now)
	if errors.Is(err, fs.ErrNotExist) {
		err = run.WriteFile(name, nil, 0o600)
	}
	if errors.Is(err, fs.ErrNotExist) { // it had no box left
		return nil
	}
	return err
}

// box ends one box of a dead instance, unless it is living and has a guest.
func (r Reaper) box(ctx context.Context, run *os.Root, name string, id sandbox.ID, owner Record) error {
	inside := boxFolder(name, id)
	claim, err := openLocked(run, inside+claimSuffix, os.O_RDWR)
	switch {
	case filelock.Held(err):
		return nil // reattached
	case err == nil:
		defer claim.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dir := filepath.Join(run.Name(), filepath.FromSlash(inside))
	rec, err := ReadBox(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if rec.Lifetime.Living {
		if lives, err := r.Lives(ctx, id, owner); lives || err != nil {
			return err
		}
	}
	err = r.End(ctx, id, dir, owner)
	if err == nil && claim != nil {
		err = run.Remove(inside + claimSuffix)
	}
	return err
}

// boxFolder is a box's folder relative to the run folder.
func boxFolder(name string, id sandbox.ID) string {
	return path.Join(folderOf(name), boxesDir, string(id))
}

func boxesOf(run *os.Root, name string) (ids []sandbox.ID, err error) {
	found, err := fs.ReadDir(run.FS(), path.Join(folderOf(name), boxesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range found {
		if id, err := sandbox.ParseID(entry.Name()); err == nil && entry.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// removeEmpty removes a dead instance without boxes, whose lock is held or gone.
func removeEmpty(run *os.Root, name string, rec Record) error {
	if left, err := boxesOf(run, name); err != nil || len(left) > 0 {
		return err // the record stays for the next process
	}
	for _, d := range rec.CgroupDirs {
		cgroup.RemoveTree(d)
	}
	return removeFolder(run, folderOf(name))
}
