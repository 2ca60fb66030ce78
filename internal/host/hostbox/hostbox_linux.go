package hostbox

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/internal/host/overlay"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/internal/host/undo"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Box is a box whose processes run on this host, except for the connection to its guest. Exported fields are set before
// Watch and not changed after.
type Box struct {
	Core
	IDs      *hostid.Pair // nil if it claims none
	Group    *cgroup.Group
	Process  *pidfd.Process // its end ends all others
	Lifeline io.Closer      // nil for a box that outlives this process

	Straggle func()      // ends what Process left behind; nil if that is impossible
	Entry    sync.Locker // held while the box's resources are released; may be nil

	last *sandbox.Usage // the figures at the end
	root *overlay.Root  // of a builder, else nil
}

// The steps of Claim after StepDir.
const (
	StepIDs   = "take host ids"
	StepGroup = "make control group"
)

// Resources are a box's resources on the host.
type Resources struct {
	IDs    string // file of the claims on host ids; "" claims none
	Range  bool   // claim the ids of a builder
	Tree   *cgroup.Tree
	Limits cgroup.Limits
}

// Claim takes the resources of a box, and makes an image of the spec its root.
func (b *Base) Claim(ctx context.Context, box *Box, r Resources, spec *sandbox.Spec, made *undo.Stack) error {
	if err := box.claim(r, made, b.Fail); err != nil {
		return err
	}
	return b.showImage(ctx, &box.Core, spec, made)
}

// claim takes the box's resources: its folder, which is the record from which every other name derives; its host ids;
// its control group. fail wraps the error of a step, or fails it.
func (box *Box) claim(r Resources, made *undo.Stack, fail func(step string, err error) error) error {
	err := os.Mkdir(box.Dir, 0o700)
	if err == nil {
		made.Add(func() error { return os.RemoveAll(box.Dir) })
	}
	if err := fail(StepDir, err); err != nil {
		return err
	}
	if r.IDs != "" {
		take := hostid.Take
		if r.Range {
			take = hostid.TakeRange
		}
		if box.IDs, err = take(r.IDs); err == nil {
			made.Add(func() error { box.IDs.Release(); return nil })
		}
		if err := fail(StepIDs, err); err != nil {
			return err
		}
	}
	if box.Group, err = r.Tree.Create(string(box.Sandbox), r.Limits); err == nil {
		made.Add(func() error { return box.Group.Remove(context.Background()) })
		box.Before = box.Group.Before()
	}
	return fail(StepGroup, err)
}

// Watch waits in the background for the process to end.
func (box *Box) Watch() {
	box.Start()
	go box.watch()
}

func (box *Box) watch() {
	code, signal := box.Process.Wait()
	if box.Straggle != nil {
		box.Straggle()
	}
	usage := box.usage()
	box.mu.Lock()
	box.last = &usage
	if !box.closing { // else Remove follows
		box.Group.CloseFiles()
	}
	box.mu.Unlock()
	end := sandbox.End{Cause: sandbox.EndDied, ExitCode: code, Signal: signal}
	if code >= 0 {
		end.Cause = sandbox.EndGuest
	}
	box.Finish(end)
}

// Usage returns the control groups' counters; after the end, the last ones.
func (box *Box) Usage(context.Context) (sandbox.Usage, error) {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last != nil {
		return *box.last, nil
	}
	return box.usage(), nil
}

// ResizeBy changes the limits of memory and CPUs. own is memory that the backend takes besides.
func (box *Box) ResizeBy(l sandbox.Limits, own int64) error {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last != nil {
		return &sandbox.Error{Kind: sandbox.NotFound, Op: "resize", Msg: "the sandbox has ended"}
	}
	to := cgroup.Limits{CPUMillis: l.CPUMillis}
	if l.MemoryBytes > 0 {
		to.MemoryBytes = l.MemoryBytes + own
		if now := box.Group.Usage().MemoryNow; now > to.MemoryBytes {
			return sandbox.Invalidf("limits.memory", "%s is less than the %s that the sandbox uses now",
				sandbox.FormatBytes(l.MemoryBytes), sandbox.FormatBytes(now))
		}
	}
	if err := box.Group.Resize(to); err != nil {
		return At(box.Backend, "resize", err)
	}
	return nil
}

// Yield implements sandbox.Yielder.
func (box *Box) Yield(part int) error {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last != nil { // the group may be another box's by now
		return nil
	}
	return At(box.Backend, "change the weight", box.Group.Yield(part))
}

// OOMKills counts the processes of a running box that the kernel killed because memory ran out.
func (box *Box) OOMKills() int64 {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last != nil { // the group may be another box's by now
		return 0
	}
	return box.Group.OOMKills()
}

// Processes lists the processes of a running box; none without control groups.
func (box *Box) Processes() []int {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last != nil { // the group may be another box's by now
		return nil
	}
	return box.Group.Processes()
}

func (box *Box) usage() sandbox.Usage {
	u := box.Group.Usage()
	u.Wall = time.Since(box.Began)
	return u
}

// KillTimeout bounds how long Close waits for killed processes. A process that survives it hangs in the kernel; its
// host ids and folder then stay reserved until the next start finds it dead.
const KillTimeout = 30 * time.Second

// hasteAfter is how long killed processes may take under their CPU limit.
const hasteAfter = time.Second

// hasten lifts the CPU limit of killed processes: under a small one, a hundred need more than half a minute to end.
func (box *Box) hasten() {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last == nil {
		_ = box.Group.Resize(cgroup.Limits{CPUMillis: 1000 * int64(runtime.NumCPU())}) // else they end later
	}
}

// endsIn reports whether the box's processes end within a time.
func (box *Box) endsIn(most time.Duration) bool {
	select {
	case <-box.ended:
		return true
	case <-time.After(most):
		return false
	}
}

// Close ends the sandbox and frees its resources.
func (box *Box) Close() error { return box.CloseBy(box.stop, box.free) }

// stop ends the box's processes.
func (box *Box) stop() error {
	box.SetClosing()
	box.Process.Kill()
	if !box.endsIn(hasteAfter) {
		box.hasten()
	}
	if !box.endsIn(KillTimeout) {
		return &sandbox.Error{Op: box.Backend + ": end sandbox",
			Msg: "its processes do not die; the next start retries from " + box.Dir}
	}
	return nil
}

// free frees the resources of a box whose processes have ended.
func (box *Box) free() error {
	if box.Entry != nil {
		box.Entry.Lock()
		defer box.Entry.Unlock()
	}
	err := box.Group.Remove(context.Background())
	if box.Lifeline != nil {
		box.Lifeline.Close()
	}
	box.Process.Close()
	err = errors.Join(err, box.CloseRoot(), os.RemoveAll(box.Dir))
	if box.Claims != nil {
		err = errors.Join(err, box.Claims.Release(context.Background(), box.Dir))
	}
	box.IDs.Release()
	return At(box.Backend, "free sandbox", err)
}

// Promote makes the box living; spec may be nil.
func (box *Box) Promote(lifetime sandbox.Lifetime, spec *sandbox.Spec) error {
	return box.PromoteBy(lifetime, func() error { return box.Record(lifetime, spec) })
}

// Finder lists a box's processes among some, by its name; nil is all of the host. The first ends all others.
type Finder func(id sandbox.ID, among []int) []int

// among lists the processes that really belong to the box. Anyone can start a process with a box's arguments, but only
// its owner can put it into the box's control group, and give it an id of the caller or a guest.
func (find Finder) among(group *cgroup.Group, id sandbox.ID) []int {
	var members []int
	if group.IsThere() { // far fewer than all of the host, of which each start looks for each living box
		members = group.Processes()
		slices.Sort(members)
		if members = slices.Compact(members); len(members) == 0 {
			return nil
		}
	}
	caller := hostid.ReadCaller()
	return slices.DeleteFunc(find(id, members), func(pid int) bool { return !pidfd.IsOfUser(pid, caller.Owns) })
}

// Reattach makes a box from the folder of a living one that claims hold, and returns its record. The caller watches the
// box. An error leaves the box unchanged.
func Reattach(backend, dir string, claims *instance.Claims, find Finder) (*Box, instance.Box, error) {
	id := sandbox.ID(filepath.Base(dir))
	box := &Box{Core: Core{Backend: backend, Sandbox: id, Dir: dir, Claims: claims}}
	rec, err := box.Load()
	if err != nil {
		return nil, rec, err
	}
	owner, err := instance.OwnerOf(dir)
	if err != nil {
		return nil, rec, err
	}
	box.Group = cgroup.Find(owner.CgroupDirs, string(id))
	box.Group.Since(rec.Before)
	box.Group.KeepFiles()
	pids := find.among(box.Group, id)
	if len(pids) == 0 {
		return nil, rec, box.NotFound(rec.Over())
	}
	if box.Process, err = pidfd.Open(pids[0]); err != nil {
		return nil, rec, box.NotFound(rec.Over())
	}
	if again := find.among(box.Group, id); len(again) == 0 || again[0] != pids[0] {
		box.Process.Close() // the process ended before it was opened, and its number may be another's
		return nil, rec, box.NotFound(rec.Over())
	}
	return box, rec, nil
}

// Lives reports whether a box of a dead owner has processes.
func (find Finder) Lives(_ context.Context, id sandbox.ID, owner instance.Record) (bool, error) {
	return len(find.among(cgroup.Find(owner.CgroupDirs, string(id)), id)) > 0, nil
}

// ReapBy ends the boxes of dead instances, except living ones for which main finds a process. all finds every process
// of a box.
func (b *Base) ReapBy(ctx context.Context, main, all Finder) error {
	end := func(ctx context.Context, _ sandbox.ID, dir string, owner instance.Record) error {
		return Reap(ctx, b.Backend, dir, owner, all)
	}
	return b.At("reap", instance.Reaper{Lives: main.Lives, End: end, Recheck: b.Recheck}.Reap(ctx, b.RunDir))
}

// reapTimeout bounds how long Reap waits for a killed process. One that a tracer or the kernel holds is left for the
// next start.
const reapTimeout = 5 * time.Second

// Reap ends one box of a dead owner. Usually it has ended by itself: its guest holds a lifeline or a lease. A box that
// does not end keeps its folder, so the next Reap finds it.
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
