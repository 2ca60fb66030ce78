package native

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/guest/confine"
	"github.com/glovebox-dev/glovebox/internal/seccomp"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// planned is a plan on its way to the guest, with the detached mounts that go along.
type planned struct {
	confine.Plan
	mounts []int
}

func (p *planned) close() {
	for _, fd := range p.mounts {
		unix.Close(fd)
	}
}

// walls is the part of the plan that says what the code's processes stand behind.
func (p *planned) walls() *confine.Plan {
	return &confine.Plan{Code: p.Code, Limits: p.Limits, Payload: p.Payload, Handled: p.Handled, Scoped: p.Scoped,
		Landlock: p.Landlock, Seccomp: p.Seccomp}
}

// makePlan turns a spec into what the set-up stage does, in the root of t where there is one.
func (b *Backend) makePlan(spec *sandbox.Spec, m ids, key [32]byte, t *template) (_ *planned, err error) {
	p := &planned{Plan: confine.Plan{
		ID: string(spec.ID), Key: key[:], Hostname: hostname,
		Guest: m.guest, Code: m.code,
		Loopback: true,
		OneShot:  !spec.Lifetime.Living,
		Lease:    int64(lease(spec)),
		FailAt:   b.options.FailAt,
	}}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	restricted := spec.Commands != nil
	var commands []string
	if t != nil {
		p.Template = t.device
	} else if p.Root, commands, err = b.staticSteps(spec); err != nil {
		return nil, err
	}
	p.Root = append(p.Root, kernelSteps(m.guest.GID)...)
	p.Root = append(p.Root, writableSteps(spec.Limits, m.code, spec.Workdir != "", restricted)...)
	writable := []string{}
	for _, w := range writablePlaces {
		writable = append(writable, w.target)
	}
	if spec.Workdir != "" {
		if err := p.addWorkdir(spec.Workdir, m, restricted); err != nil {
			return nil, err
		}
	}
	for _, l := range spec.Layers {
		if err := p.addMount(sandbox.Mount{Source: l.Dir, Target: l.At}, m, false); err != nil {
			return nil, err
		}
	}
	for _, mount := range spec.Mounts {
		if err := p.addMount(mount, m, restricted); err != nil {
			return nil, err
		}
		if mount.Writable {
			writable = append(writable, mount.Target)
		}
	}
	p.Limits, p.Payload = rlimits(spec.Limits)
	p.Handled, p.Scoped = b.kernel.landlockRights()
	p.Landlock = grants(p.Handled, writable, commands)
	p.Seccomp = b.filters.get(seccomp.Options{HostWritable: hostWritable(spec), NoNewPrograms: restricted})
	return p, nil
}

func lease(spec *sandbox.Spec) (ns int64) {
	if !spec.Lifetime.Living {
		return 0
	}
	if spec.Lifetime.Lease > 0 {
		return int64(spec.Lifetime.Lease)
	}
	return int64(sandbox.DefaultLease)
}

// addWorkdir makes a host directory the workspace. Root maps its owner to the code's user by an id-mapped mount, so that files keep
// their owner on disk and nothing is ever chowned; an ordinary user's code is the user itself on the host.
func (p *planned) addWorkdir(dir string, m ids, noExec bool) error {
	return p.addMount(sandbox.Mount{Source: dir, Target: sandbox.Workspace, Writable: true}, m, noExec)
}

// addMount shows a host file or folder in the sandbox. As root it is opened here, so that its path need not be open to the sandbox's
// ids; an ordinary user's guest opens it by its path.
func (p *planned) addMount(mount sandbox.Mount, m ids, noExec bool) error {
	if err := checkTarget(mount.Target); err != nil {
		return err
	}
	if _, err := os.Lstat(mount.Source); err != nil {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "mount " + mount.Source, Err: err}
	}
	step := confine.Step{Do: confine.Bind, Target: strings.TrimPrefix(path.Clean(mount.Target), "/"), Source: mount.Source}
	if mount.Writable {
		step.Flags |= confine.Writable
	}
	if noExec && mount.Writable {
		step.Flags |= confine.NoExec
	}
	if os.Geteuid() == 0 {
		fd, err := detachedMount(mount, m)
		if err != nil {
			return err
		}
		if len(p.mounts) == confine.MaxFDs {
			unix.Close(fd)
			return sandbox.Invalidf("mounts", "are too many; the most is %d", confine.MaxFDs)
		}
		step.Source, step.FD = "", int32(len(p.mounts))
		p.mounts = append(p.mounts, fd)
	}
	p.Root = append(p.Root, step)
	return nil
}

// checkTarget refuses targets that would cover what the sandbox itself is made of.
func checkTarget(target string) error {
	clean := path.Clean(target)
	if !path.IsAbs(target) || clean != strings.TrimSuffix(target, "/") || clean == "/" {
		return sandbox.Invalidf("mounts", "target %q must be an absolute path without . and .. parts", target)
	}
	for _, taken := range []string{"/proc", "/dev", "/sys", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		if clean == taken || strings.HasPrefix(clean, taken+"/") && (taken == "/proc" || taken == "/dev" || taken == "/sys") {
			return sandbox.Invalidf("mounts", "target %s is the sandbox's own", target)
		}
	}
	return nil
}

// guestTasks is how many threads of the guest itself the cgroup leaves room for, beside the code's processes. RLIMIT_NPROC, which
// counts the code's user only, bounds these exactly.
const guestTasks = 24

// What also holds for the zygote: glibc keeps the limit of the stack that it finds when a program starts, as the size of its threads' own.
var (
	noCore    = confine.Rlimit{Resource: unix.RLIMIT_CORE}
	codeStack = confine.Rlimit{Resource: unix.RLIMIT_STACK, Soft: 8 << 20, Hard: 64 << 20}
)

func rlimits(l sandbox.Limits) (guest, payload []confine.Rlimit) {
	both := func(resource int, v int64) confine.Rlimit {
		return confine.Rlimit{Resource: uint32(resource), Soft: uint64(v), Hard: uint64(v)}
	}
	const guestFiles = 4096
	guest = []confine.Rlimit{
		noCore,
		both(unix.RLIMIT_NOFILE, max(l.OpenFiles, guestFiles)),
		both(unix.RLIMIT_MEMLOCK, 64<<10),
		both(unix.RLIMIT_MSGQUEUE, 819200), // the kernel's default; it is charged to the user, who is the sandbox's own
		both(unix.RLIMIT_SIGPENDING, 4096),
		both(unix.RLIMIT_RTPRIO, 0),
		both(unix.RLIMIT_NICE, 0),
		codeStack,
	}
	payload = []confine.Rlimit{
		both(unix.RLIMIT_NPROC, l.Pids),
		both(unix.RLIMIT_NOFILE, l.OpenFiles),
	}
	return guest, payload
}

// staticSteps are the part of the root that is made for no one sandbox, and the programs that may be executed (nil for all).
func (b *Backend) staticSteps(spec *sandbox.Spec) ([]confine.Step, []string, error) {
	system, commands, err := b.systemSteps(spec)
	// /dev comes first: masks use its null device.
	return slices.Concat(deviceSteps(), system, placeSteps()), commands, err
}

// systemSteps are the read-only part of the root, and the programs that may be executed (nil for all). Those of the host's own root
// are made once.
func (b *Backend) systemSteps(spec *sandbox.Spec) ([]confine.Step, []string, error) {
	if spec.Root.Image != "" {
		return nil, nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "root", Msg: "the native backend has no images yet",
			Mend: "give a directory with --root"}
	}
	dir := "/"
	if spec.Root.Dir != "" {
		abs, err := filepath.EvalSymlinks(spec.Root.Dir)
		if err != nil {
			return nil, nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "root", Err: err}
		}
		dir = abs
	}
	switch {
	case spec.Commands != nil:
		return restrictedSteps(dir, spec.Commands)
	case dir == "/":
		steps, err := b.hostSteps()
		return steps, nil, err
	}
	steps, err := systemSteps(dir)
	return steps, nil, err
}
