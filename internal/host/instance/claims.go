package instance

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Claims are the boxes of dead instances that this process has reattached. A box stays in its original folder, and a
// lock beside it shows that it has an owner again. A crash leaves nothing half done, as the lock ends with the process.
// The lock's file is removed after the folder, and no ID is used twice, so a process that locks a removed file finds no
// folder. The zero Claims has none.
type Claims struct {
	mu   sync.Mutex // guards held
	held map[string]*os.File
}

// Claim makes this process the owner of a dead instance's box, and returns its folder. The caller checks whether the
// box is living and has processes. Release gives the box back.
func (c *Claims) Claim(ctx context.Context, run string, id sandbox.ID) (dir string, err error) {
	if _, err := sandbox.ParseID(string(id)); err != nil { // it becomes part of a path
		return "", err
	}
	root, err := rundir.Open(run)
	if errors.Is(err, fs.ErrNotExist) {
		return "", noBox(id)
	}
	if err != nil {
		return "", err
	}
	defer root.Close()
	name, err := makerOf(root, id)
	if err != nil {
		return "", err
	}
	// A process that ends boxes holds this lock too, so none ends the box meanwhile.
	dead, err := lockDead(ctx, root, name, takeTries)
	if err != nil {
		return "", explainLock(id, err)
	}
	defer dead.Close()
	inside := boxFolder(name, id)
	file, err := lockLeft(ctx, takeTries, func() (*os.File, error) {
		return openLocked(root, inside+claimSuffix, os.O_RDWR|os.O_CREATE)
	}, func() bool { return readOwner(root, inside+claimSuffix).ownerLives() })
	if err != nil {
		return "", explainLock(id, err)
	}
	if _, err = root.Lstat(inside); err == nil {
		err = writeOwner(file)
	} else {
		_ = root.Remove(inside + claimSuffix) // this call may have made it; otherwise the instance's end removes it
		err = explainLock(id, err)
	}
	if err != nil {
		return "", errors.Join(err, file.Close())
	}
	dir = filepath.Join(root.Name(), filepath.FromSlash(inside))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = map[string]*os.File{}
	}
	c.held[dir] = file
	return dir, nil
}

// claimSuffix follows a box's ID in the name of the lock.
const claimSuffix = ".lock"

// makerOf finds the instance that made a box, which never moves.
func makerOf(run *os.Root, id sandbox.ID) (name string, err error) {
	found, err := fs.ReadDir(run.FS(), instancesDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, entry := range found {
		if info, err := run.Lstat(boxFolder(entry.Name(), id)); err == nil && info.IsDir() {
			return entry.Name(), nil
		}
	}
	return "", noBox(id)
}

// HasBox reports whether a box exists below a run folder. One of a dead owner whose processes have ended does not.
func HasBox(run string, id sandbox.ID) (bool, error) {
	root, err := rundir.Open(run)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	name, err := makerOf(root, id)
	if sandbox.KindOf(err) == sandbox.NotFound {
		return false, nil
	}
	return err == nil && !isLeft(root, name, id), err
}

// isLeft reports whether only the folder of a box is left, for the next Reap. Without control groups that is unknown.
func isLeft(run *os.Root, name string, id sandbox.ID) bool {
	rec, err := readRecord(run, folderOf(name), name)
	if err != nil || rec.ownerLives() || readOwner(run, boxFolder(name, id)+claimSuffix).ownerLives() {
		return false
	}
	for _, dir := range rec.CgroupDirs {
		processes, err := os.ReadFile(filepath.Join(dir, string(id), "cgroup.procs"))
		if len(processes) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return len(rec.CgroupDirs) > 0
}

func noBox(id sandbox.ID) error {
	return &sandbox.Error{Kind: sandbox.NotFound, Op: "reattach " + string(id),
		Msg: "no such sandbox: it was closed, or the host has restarted"}
}

// explainLock explains why a box's lock is not available.
func explainLock(id sandbox.ID, err error) error {
	switch {
	case filelock.Held(err):
		return &sandbox.Error{Kind: sandbox.Exists, Op: "reattach " + string(id), Msg: "a running process owns it"}
	case errors.Is(err, errBusy):
		return &sandbox.Error{Kind: sandbox.Busy, Op: "reattach " + string(id), Err: err, Fix: "try again"}
	case errors.Is(err, fs.ErrNotExist): // it ended meanwhile
		return noBox(id)
	}
	return err
}

// writeOwner records this process in a lock that it holds. A forked child that has not executed its program yet may
// briefly hold a dead process's lock, so the lock alone does not prove that the owner lives.
func writeOwner(lock *os.File) error {
	text, err := json.Marshal(Record{PID: os.Getpid(), Started: startOf(os.Getpid())})
	if err == nil {
		err = lock.Truncate(0)
	}
	if err == nil {
		_, err = lock.WriteAt(text, 0)
	}
	return err
}

// readOwner returns an empty record while the owner is not recorded.
func readOwner(run *os.Root, file string) (rec Record) {
	text, err := run.ReadFile(file)
	if err != nil || json.Unmarshal(text, &rec) != nil {
		return Record{}
	}
	return rec
}

// Release gives up a claimed box. If its folder is gone, and was the instance's last one, it removes the instance too.
func (c *Claims) Release(ctx context.Context, dir string) error {
	c.mu.Lock()
	file := c.held[dir]
	delete(c.held, dir)
	c.mu.Unlock()
	if file == nil {
		return nil
	}
	if _, err := os.Lstat(dir); err == nil {
		return drop(file)
	}
	err := file.Close()
	_ = os.Remove(dir + claimSuffix) // otherwise the instance's end removes it
	maker := filepath.Dir(filepath.Dir(dir))
	root, openErr := os.OpenRoot(filepath.Dir(filepath.Dir(maker)))
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	defer root.Close()
	lock, lockErr := lockDead(ctx, root, filepath.Base(maker), lockTries)
	if lockErr != nil {
		return err // its owner lives, or another process or the next Reap removes it
	}
	defer lock.Close()
	rec, readErr := readRecord(root, folderOf(filepath.Base(maker)), filepath.Base(maker))
	if readErr != nil {
		return err
	}
	return errors.Join(err, removeEmpty(root, filepath.Base(maker), rec))
}

// drop gives up a lock: this process may live on.
func drop(lock *os.File) error { return errors.Join(lock.Truncate(0), lock.Close()) }

// Close gives up all boxes, which live on.
func (c *Claims) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, file := range c.held {
		errs = append(errs, drop(file))
	}
	c.held = nil
	return errors.Join(errs...)
}
