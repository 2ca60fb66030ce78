package native

import (
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/idmap"
	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/internal/host/seccomp"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// planned is a plan for the guest, with the detached mounts to send along.
type planned struct {
	confine.Plan
	mounts []int
}

func (p *planned) close() {
	for _, fd := range p.mounts {
		unix.Close(fd)
	}
}

// walls returns the part of the plan that confines the code's processes.
func (p *planned) walls() *confine.Plan {
	return &confine.Plan{Code: p.Code, Limits: p.Limits, Payload: p.Payload, Landlock: p.Landlock, Seccomp: p.Seccomp}
}

// planning is what a plan is made from.
type planning struct {
	spec     *sandbox.Spec
	ids      ids
	guestPID int       // of the process that gets the plan
	template *template // its root; nil if it makes its own
	box      *Box
}

// makePlan turns a spec into the set-up stage's plan.
func (b *Backend) makePlan(from *planning) (_ *planned, err error) {
	spec, m, t, box := from.spec, from.ids, from.template, from.box
	p := &planned{Plan: confine.Plan{
		ID: string(spec.ID), Key: box.Key[:], Hostname: rootfs.Hostname,
		Guest: m.guest, Code: m.code,
		Loopback: true,
		OneShot:  !spec.Lifetime.Living,
		Lease:    int64(spec.Lifetime.GuestLease()),
		FailAt:   b.options.FailAt,
	}}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	restricted := spec.Commands != nil
	var commands []string
	switch {
	case spec.Root.Writable:
		if err := p.buildIn(spec, m, box); err != nil {
			return nil, err
		}
	case t != nil:
		p.Template = t.device
	default:
		if p.Root, commands, err = b.staticSteps(spec); err != nil {
			return nil, err
		}
	}
	writable := []string{"/"}
	if !spec.Root.Writable {
		p.Root = append(p.Root, kernelSteps(m.guest.GID, spec.Terminals, rootfs.EmptyFile, rootfs.EmptyDir)...)
		p.Root = append(p.Root, rootfs.Writable(spec.Limits, m.code, spec.Workspace != "", restricted)...)
		writable = nil
		for _, w := range rootfs.WritablePlaces {
			writable = append(writable, w.Target)
		}
	}
	for _, mount := range rootfs.HostMounts(spec) {
		if err := p.addMount(mount, from, restricted); err != nil {
			return nil, err
		}
		if mount.Writable && mount.Target != sandbox.Workspace {
			writable = append(writable, mount.Target)
		}
	}
	for _, v := range spec.MemoryVolumes() {
		p.Root = append(p.Root, rootfs.Memory(v, spec.Limits, restricted))
		writable = append(writable, v.Path)
	}
	p.Limits, p.Payload = confine.Rlimits(spec.Limits)
	p.Landlock = b.kernel.ruleset()
	p.Landlock.Grants = grants(p.Landlock.Handled, writable, commands)
	p.Seccomp = b.filter(seccomp.Options{HostWritable: spec.HostWritable(), NoNewPrograms: restricted,
		NestedFilters: spec.NestedFilters})
	return p, nil
}

// addMount mounts a host file or folder in the sandbox. Root opens it here, so the sandbox's ids need no access to its
// path, and maps a writable one's owner to the code's user by an id-mapped mount, so files keep their owner on disk. An
// ordinary user's guest opens it by path, and its code has the user's own id on the host.
func (p *planned) addMount(mount sandbox.Mount, from *planning, noExec bool) error {
	if err := rootfs.CheckTarget(mount.Target); err != nil {
		return err
	}
	if mount.Open == nil {
		if _, err := nolink.Stat(mount.Source); err != nil {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "mount " + mount.Source, Err: err}
		}
	}
	step := confine.Step{Do: confine.Bind, Target: strings.TrimPrefix(path.Clean(mount.Target), "/"),
		Source: mount.Source,
		Flags:  confine.NoLinks}
	if mount.Writable {
		step.Flags |= confine.Writable
	}
	if noExec && mount.Writable {
		step.Flags |= confine.NoExec
	}
	if os.Geteuid() == 0 {
		fd, err := idmap.DetachIn(mount, from.ids.code, from.ids.Lines[len(from.ids.Lines)-1].Host, from.guestPID)
		if err != nil {
			return err
		}
		if len(p.mounts) == confine.MaxFDs {
			unix.Close(fd)
			return sandbox.Invalidf("mounts", "too many; the maximum is %d", confine.MaxFDs)
		}
		step.Source, step.FD = "", int32(len(p.mounts))
		p.mounts = append(p.mounts, fd)
	}
	p.Root = append(p.Root, step)
	return nil
}

// guestTasks is the cgroup's allowance for the guest's threads, in addition to the code's processes. RLIMIT_NPROC,
// which counts only the code's user, limits those exactly.
const guestTasks = 24

// staticSteps returns the steps of the root that are the same for many sandboxes, and the executable programs (nil for
// all).
func (b *Backend) staticSteps(spec *sandbox.Spec) ([]confine.Step, []string, error) {
	dir, err := rootfs.Folder(spec.Root)
	if err != nil {
		return nil, nil, err
	}
	system, commands, err := b.systemSteps(dir, spec)
	var hidden []confine.Step
	if dir == "/" && spec.Commands == nil {
		hidden = rootfs.Hidden()
	}
	shown := rootfs.ShowProcessors(spec.Limits)
	return slices.Concat(deviceSteps(), system, rootfs.Places(), shown, hidden), commands, err
}

// systemSteps returns the read-only part of the root, computed once for the host's own root, and the executable
// programs (nil for all).
func (b *Backend) systemSteps(dir string, spec *sandbox.Spec) ([]confine.Step, []string, error) {
	switch {
	case spec.Commands != nil:
		return rootfs.Restricted(dir, spec.Commands, spec.User)
	case dir == "/" && spec.User == sandbox.DefaultUser:
		steps, err := b.hostSteps()
		return steps, nil, err
	}
	steps, err := rootfs.System(dir, spec.User)
	return steps, nil, err
}

// filter returns the compiled system call policy of these options. Compiling takes 0.1 ms, so it is cached.
func (b *Backend) filter(o seccomp.Options) []byte {
	if f, ok := b.filters.Load(o); ok {
		return f.([]byte)
	}
	f := seccomp.New(o).Compile()
	b.filters.Store(o, f)
	return f
}
