// Package hostbox is what boxes have in common whose processes are this host's own: one process with which all others end, figures that
// control groups count, host ids, and a folder that is the record of it all.
package hostbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Box is all of a box but its way to the guest. The exported fields are set before Watch, and not changed after.
type Box struct {
	Backend  string // its name, for errors
	Sandbox  sandbox.ID
	Key      [32]byte
	Dir      string
	IDs      *hostid.Pair // nil where it has none of its own
	Group    *cgroup.Group
	Process  *pidfd.Process // with its end all others end
	Lifeline io.Closer      // nil for a box that outlives this process
	Policy   sandbox.Policy // what is enforced
	Began    time.Time
	Emptied  []string // folders of a dead server's control groups, to be removed after the box's own

	Straggle func()      // ends what the process left behind, once it is gone; nil where there can be nothing
	Entry    sync.Locker // held while what the box has is given up; nil is none

	ended chan struct{} // closed once every process of the sandbox is gone

	mu      sync.Mutex // guards the fields below
	closing bool
	end     sandbox.End
	last    *sandbox.Usage // the figures at the end

	closeOnce sync.Once
	closeErr  error
}

// Watch waits for the end of the process in the background. The wait ends with the process, which Close brings about.
func (box *Box) Watch() {
	box.ended = make(chan struct{})
	go box.watch()
}

func (box *Box) watch() {
	code, signal := box.Process.Wait()
	if box.Straggle != nil {
		box.Straggle()
	}
	box.mu.Lock()
	box.end = sandbox.End{Cause: sandbox.EndDied, ExitCode: code, Signal: signal}
	switch {
	case box.closing:
		box.end.Cause = sandbox.EndClosed
	case code >= 0:
		box.end.Cause = sandbox.EndGuest
	}
	usage := box.usage()
	box.last = &usage
	box.mu.Unlock()
	close(box.ended)
}

// ID is the sandbox's name.
func (box *Box) ID() sandbox.ID { return box.Sandbox }

// GuestKey is what the guest demands on a connection.
func (box *Box) GuestKey() [32]byte { return box.Key }

// Effective is what is enforced.
func (box *Box) Effective() sandbox.Policy { return box.Policy }

// Alive is nil, or the error of whoever dials a box that has ended.
func (box *Box) Alive() error {
	select {
	case <-box.ended:
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: box.Backend + ": dial guest", Msg: "the sandbox has ended"}
	default:
		return nil
	}
}

// Usage is what the control groups have counted, and the last of it after the end.
func (box *Box) Usage(context.Context) (sandbox.Usage, error) {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last != nil {
		return *box.last, nil
	}
	return box.usage(), nil
}

func (box *Box) usage() sandbox.Usage {
	u := box.Group.Usage()
	return sandbox.Usage{Wall: time.Since(box.Began), CPU: u.CPU, MemoryPeak: u.MemoryPeak, MemoryNow: u.MemoryNow,
		OOMKills: u.OOMKills, PidsNow: u.Pids, DiskWritten: -1}
}

// Wait returns once every process of the sandbox is gone.
func (box *Box) Wait(ctx context.Context) (sandbox.End, error) {
	select {
	case <-box.ended:
		box.mu.Lock()
		defer box.mu.Unlock()
		return box.end, nil
	case <-ctx.Done():
		return sandbox.End{}, ctx.Err()
	}
}

// IsClosing says whether Close was called.
func (box *Box) IsClosing() bool {
	box.mu.Lock()
	defer box.mu.Unlock()
	return box.closing
}

// KillTimeout bounds how long Close waits for killed processes. One that does not die in this time hangs in the kernel; its host ids and
// its folder are then kept from use, until the next start finds it dead.
const KillTimeout = 30 * time.Second

// Close ends the sandbox and frees what it held.
func (box *Box) Close() error {
	box.closeOnce.Do(func() { box.closeErr = box.close() })
	return box.closeErr
}

func (box *Box) close() error {
	box.mu.Lock()
	box.closing = true
	box.mu.Unlock()
	box.Process.Kill()
	select {
	case <-box.ended:
	case <-time.After(KillTimeout):
		return &sandbox.Error{Op: box.Backend + ": end sandbox", Msg: "its processes do not die; " + box.Dir + " is kept for the next start"}
	}
	if box.Entry != nil {
		box.Entry.Lock()
		defer box.Entry.Unlock()
	}
	err := box.Group.Remove(context.Background())
	if box.Lifeline != nil {
		box.Lifeline.Close()
	}
	for _, dir := range box.Emptied {
		cgroup.RemoveTree(dir)
	}
	box.Process.Close()
	err = errors.Join(err, os.RemoveAll(box.Dir))
	box.IDs.Release()
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: box.Backend + ": free sandbox", Err: err}
	}
	return nil
}

// Finder lists the processes of a box by its name, the one with whose end all others end first among them.
type Finder func(sandbox.ID) []int

// among lists the processes that are the box's indeed: anybody may give a process of his own a box's arguments, but neither put it into the
// box's control group nor give it an id of ours or a guest's.
func (find Finder) among(group *cgroup.Group, id sandbox.ID) []int {
	members, caller := group.Processes(), hostid.ReadCaller()
	return slices.DeleteFunc(find(id), func(pid int) bool {
		return group.IsThere() && !slices.Contains(members, pid) || !pidfd.IsOfUser(pid, caller.Owns)
	})
}

// reapTimeout bounds how long Reap waits for a killed process. One that a tracer holds, or the kernel, is left for the next start.
const reapTimeout = 5 * time.Second

// TakeBack makes a box out of the folder that a dead server left, into a folder of in's, and returns what was written down of it. One whose
// processes are gone, or that was not complete, is cleaned up and reported as an error. It is not watched yet.
func TakeBack(ctx context.Context, backend string, in *instance.Instance, dir string, find Finder) (*Box, instance.Box, error) {
	id := sandbox.ID(filepath.Base(dir))
	box := &Box{Backend: backend, Sandbox: id, Dir: in.BoxDir(id)}
	rec, err := instance.ReadBox(dir)
	box.Group = cgroup.Find(rec.CgroupDirs, string(id))
	pids := find.among(box.Group, id)
	if err == nil && (len(pids) == 0 || len(rec.Key) != len(box.Key)) {
		err = &sandbox.Error{Kind: sandbox.NotFound, Op: backend + ": take back " + string(id), Msg: "it has ended"}
	}
	if err != nil {
		owner, readErr := instance.OwnerOf(dir)
		return nil, rec, errors.Join(err, readErr, Reap(ctx, backend, dir, owner, find))
	}
	box.Policy, box.Began, box.Emptied = rec.Effective, rec.Began, rec.CgroupDirs
	copy(box.Key[:], rec.Key)
	if box.Process, err = pidfd.Open(pids[0]); err != nil {
		return nil, rec, err
	}
	if err := os.Rename(dir, box.Dir); err != nil {
		box.Process.Close()
		return nil, rec, err
	}
	return box, rec, nil
}

// Reap ends one box of a dead owner. It has most likely ended by itself: its guest holds a lifeline or a lease. The groups of a box that the
// owner had taken back lie where its own record says, not where the owner made groups. What cannot be ended keeps its folder, by which the
// next recovery finds it.
func Reap(ctx context.Context, backend, dir string, owner instance.Record, find Finder) error {
	id := sandbox.ID(filepath.Base(dir))
	dirs := owner.CgroupDirs
	switch box, err := instance.ReadBox(dir); {
	case err == nil:
		dirs = box.CgroupDirs
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	group := cgroup.Find(dirs, string(id))
	killing, cancel := context.WithTimeout(ctx, reapTimeout)
	for _, pid := range find.among(group, id) {
		pidfd.KillAndWait(killing, pid)
	}
	cancel()
	group.Kill()
	if err := group.Remove(ctx); err != nil {
		return err
	}
	if len(find.among(cgroup.Find(dirs, string(id)), id)) > 0 { // without control groups nothing else tells
		return &sandbox.Error{Op: backend + ": end sandbox " + string(id), Msg: "its processes do not die"}
	}
	for _, d := range dirs {
		cgroup.RemoveTree(d)
	}
	return os.RemoveAll(dir)
}
