// Package hostbox is the shared part of boxes whose processes run on this host: a main process that ends all others, control
// group counters, host ids, and the folder that records them.
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

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Box is a box except for the connection to its guest. Exported fields are set before Watch and not changed after.
type Box struct {
	Backend  string // its name, for errors
	Sandbox  sandbox.ID
	Key      [32]byte
	Dir      string
	IDs      *hostid.Pair // nil if it has none of its own
	Group    *cgroup.Group
	Process  *pidfd.Process // its end ends all others
	Lifeline io.Closer      // nil for a box that outlives this process
	Policy   sandbox.Policy // what is enforced
	Began    time.Time
	Claims   *instance.Claims // that hold the box; nil if this process made it

	Straggle func()      // ends what Process left behind; nil if that is impossible
	Entry    sync.Locker // held while the box's resources are released; may be nil

	ended chan struct{} // closed once every process of the sandbox is gone

	mu      sync.Mutex // guards the fields below
	closing bool
	end     sandbox.End
	last    *sandbox.Usage // the figures at the end

	closeOnce sync.Once
	closeErr  error
}

// Watch waits in the background for the process to end.
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

// Alive returns the error for dialling a box that has ended, else nil.
func (box *Box) Alive() error {
	select {
	case <-box.ended:
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: box.Backend + ": dial guest", Msg: "the sandbox has ended"}
	default:
		return nil
	}
}

// Usage is what the control groups count; after the end, the last figures.
func (box *Box) Usage(context.Context) (sandbox.Usage, error) {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last != nil {
		return *box.last, nil
	}
	return box.usage(), nil
}

// OOMKills counts the processes that the kernel killed for want of memory, of a box that lives.
func (box *Box) OOMKills() int64 {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last != nil { // the group may be another box's by now
		return 0
	}
	return box.Group.OOMKills()
}

func (box *Box) usage() sandbox.Usage {
	u := box.Group.Usage()
	return sandbox.Usage{Wall: time.Since(box.Began), CPU: u.CPU, MemoryPeak: u.MemoryPeak, MemoryNow: u.MemoryNow,
		OOMKills: u.OOMKills, PidsNow: u.Pids, PidsRefused: u.Refused, DiskWritten: -1}
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

// IsClosing reports whether Close was called.
func (box *Box) IsClosing() bool {
	box.mu.Lock()
	defer box.mu.Unlock()
	return box.closing
}

// KillTimeout bounds how long Close waits for killed processes. A process that survives it hangs in the kernel; its host ids
// and folder then stay reserved until the next start finds it dead.
const KillTimeout = 30 * time.Second

// Close ends the sandbox and frees its resources.
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
		return &sandbox.Error{Op: box.Backend + ": end sandbox", Msg: "its processes do not die; the next start retries from " + box.Dir}
	}
	if box.Entry != nil {
		box.Entry.Lock()
		defer box.Entry.Unlock()
	}
	err := box.Group.Remove(context.Background())
	if box.Lifeline != nil {
		box.Lifeline.Close()
	}
	box.Process.Close()
	err = errors.Join(err, os.RemoveAll(box.Dir))
	if box.Claims != nil {
		err = errors.Join(err, box.Claims.Release(context.Background(), box.Dir))
	}
	box.IDs.Release()
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: box.Backend + ": free sandbox", Err: err}
	}
	return nil
}

// Finder lists a box's processes by its name; the first ends all others.
type Finder func(sandbox.ID) []int

// among lists the processes that really belong to the box. Anyone can start a process with a box's arguments, but not put it into the box's
// control group, nor give it an id of the caller's or a guest's.
func (find Finder) among(group *cgroup.Group, id sandbox.ID) []int {
	members, caller := group.Processes(), hostid.ReadCaller()
	return slices.DeleteFunc(find(id), func(pid int) bool {
		return group.IsThere() && !slices.Contains(members, pid) || !pidfd.IsOfUser(pid, caller.Owns)
	})
}

// reapTimeout bounds how long Reap waits for a killed process. One that a tracer holds, or the kernel, is left for the next start.
const reapTimeout = 5 * time.Second

// Record writes what another process needs to reattach the box; then the box is living. spec may be nil.
func (box *Box) Record(lifetime sandbox.Lifetime, spec *sandbox.Spec) error {
	return instance.Box{Key: box.Key[:], Lifetime: lifetime, Spec: spec, Effective: box.Policy, Began: box.Began,
		Before: box.Group.Before()}.Write(box.Dir)
}

// Promote makes the box living. The lifeline stays: the guest ends with it until it has a lease.
func (box *Box) Promote(lifetime sandbox.Lifetime, spec *sandbox.Spec) error {
	if !lifetime.Living {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: box.Backend + ": promote", Msg: "the lifetime is that of a one-shot sandbox"}
	}
	box.mu.Lock() // so that Close does not begin meanwhile
	defer box.mu.Unlock()
	if box.Alive() != nil || box.closing {
		return &sandbox.Error{Kind: sandbox.NotFound, Op: box.Backend + ": promote", Msg: "the sandbox has ended"}
	}
	if err := box.Record(lifetime, spec); err != nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: box.Backend + ": promote", Err: err}
	}
	return nil
}

// Reattach makes a box from the folder of a living one that claims hold, and returns its record. The box is not watched yet.
// An error leaves the box as it was.
func Reattach(backend, dir string, claims *instance.Claims, find Finder) (*Box, instance.Box, error) {
	id := sandbox.ID(filepath.Base(dir))
	none := func(msg string) error {
		return &sandbox.Error{Kind: sandbox.NotFound, Op: backend + ": reattach " + string(id), Msg: msg}
	}
	rec, err := instance.ReadBox(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = none(instance.NotLiving)
	}
	if err != nil {
		return nil, rec, err
	}
	owner, err := instance.OwnerOf(dir)
	if err != nil {
		return nil, rec, err
	}
	box := &Box{Backend: backend, Sandbox: id, Dir: dir, Policy: rec.Effective, Began: rec.Began, Claims: claims,
		Group: cgroup.Find(owner.CgroupDirs, string(id))}
	box.Group.Since(rec.Before)
	pids := find.among(box.Group, id)
	switch {
	case !rec.Lifetime.Living || len(rec.Key) != len(box.Key):
		return nil, rec, none(instance.NotLiving)
	case len(pids) == 0:
		return nil, rec, none(rec.Over())
	}
	copy(box.Key[:], rec.Key)
	if box.Process, err = pidfd.Open(pids[0]); err != nil {
		return nil, rec, none(rec.Over())
	}
	if again := find.among(box.Group, id); len(again) == 0 || again[0] != pids[0] {
		box.Process.Close() // it ended before it was opened, and its number may be another's
		return nil, rec, none(rec.Over())
	}
	return box, rec, nil
}

// Lives reports whether a box of a dead owner has processes.
func (find Finder) Lives(_ context.Context, id sandbox.ID, owner instance.Record) (bool, error) {
	return len(find.among(cgroup.Find(owner.CgroupDirs, string(id)), id)) > 0, nil
}

// Reap ends one box of a dead owner. Usually it has ended by itself: its guest holds a lifeline or a lease. A box that cannot
// be ended keeps its folder, so the next Reap finds it.
func Reap(ctx context.Context, backend, dir string, owner instance.Record, find Finder) error {
	id := sandbox.ID(filepath.Base(dir))
	group := cgroup.Find(owner.CgroupDirs, string(id))
	killing, cancel := context.WithTimeout(ctx, reapTimeout)
	for _, pid := range find.among(group, id) {
		pidfd.KillAndWait(killing, pid)
	}
	cancel()
	group.Kill()
	if err := group.Remove(ctx); err != nil {
		return err
	}
	if len(find.among(cgroup.Find(owner.CgroupDirs, string(id)), id)) > 0 { // without control groups nothing else tells
		return &sandbox.Error{Op: backend + ": end sandbox " + string(id), Msg: "its processes do not die"}
	}
	return os.RemoveAll(dir)
}
