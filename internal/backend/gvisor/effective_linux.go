package gvisor

import (
	"context"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/enforce"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Preflighter = (*Backend)(nil)

// Probe creates a sandbox and closes it again, the only reliable test.
func (b *Backend) Probe(ctx context.Context) (sandbox.Posture, error) {
	posture := sandbox.Posture{Backend: Name, Kernel: sandbox.KernelUserSpace}
	in, err := b.instance()
	if err != nil {
		return posture, err
	}
	spec := sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser,
		AllowUnenforced: []string{string(sandbox.LimitMemory), string(sandbox.LimitCPUs)}}
	box, err := b.Create(ctx, spec)
	posture.Walls = append(walls(in.Tree, err == nil, false), tap.Wall())
	if err != nil {
		return posture, err
	}
	posture.Ready = in.Tree.Enforcer(cgroup.Memory) != ""
	return posture, box.Close()
}

// walls lists the isolation layers of the posture. A linked sandbox has a network.
func walls(tree *cgroup.Tree, made, linked bool) []sandbox.Wall {
	enforced := sandbox.WallEnforced
	if !made {
		enforced = sandbox.WallMissing
	}
	kernel := "gVisor, in a process without network or capabilities, behind a system call filter"
	if linked {
		kernel = "gVisor, in a process without capabilities and with no network but the sandbox's, behind a system " +
			"call filter"
	}
	list := []sandbox.Wall{
		{Name: "kernel", State: enforced, Detail: kernel},
		{Name: "root", State: enforced, Detail: "read-only; /proc, /sys and /dev are gVisor's"},
		{Name: "network", State: enforced, Detail: tap.Detail(linked)},
		{Name: "capabilities", State: enforced, Detail: "none, with no_new_privs"},
	}
	for _, c := range []struct {
		name       sandbox.LimitName
		controller cgroup.Controller
	}{{sandbox.LimitMemory, cgroup.Memory}, {sandbox.LimitCPUs, cgroup.CPU}} {
		list = append(list, enforce.Wall(c.name, tree, c.controller, "not enforced"))
	}
	return append(list, sandbox.Wall{Name: "limit " + string(sandbox.LimitPids), State: sandbox.WallEnforced,
		Detail: "RLIMIT_NPROC of gVisor"})
}

// enforcement lists what gVisor enforces of a spec's limits and policies.
func enforcement(spec *sandbox.Spec, tree *cgroup.Tree) enforce.List {
	list := enforce.List{
		enforce.Memory(tree).Counts(ownMemory),
		enforce.Group(sandbox.LimitCPUs, tree, cgroup.CPU),
		{Name: sandbox.LimitPids, By: "RLIMIT_NPROC of gVisor"},
		enforce.Directories(enforce.Limit{Name: sandbox.LimitDisk, By: "tmpfs size"}, spec),
		{Name: sandbox.LimitInodes, Documented: true, Why: "gVisor's tmpfs does not count inodes",
			Fix: "leave inodes out: the memory limit covers them"},
		{Name: sandbox.LimitOpenFiles, By: "RLIMIT_NOFILE"},
		{Name: sandbox.LimitTimeout, By: "guest and server clocks"},
		{Name: sandbox.LimitOutput, By: "server"},
	}
	if spec.Root.Writable { // its files are in a file system of the host's kernel
		for i := range list {
			switch l := &list[i]; l.Name {
			case sandbox.LimitInodes:
				*l = enforce.Limit{Name: l.Name, By: "tmpfs nr_inodes"}
			case sandbox.LimitPids:
				l.By += ", for each user"
			}
		}
	}
	if spec.Commands != nil {
		list = append(list, enforce.Limit{Name: sandbox.PolicyCommands, Documented: true,
			Why: "gVisor cannot limit which programs are executed: it has no Landlock",
			Fix: "use the native backend"})
	}
	return list
}

// effective returns the policy that is enforced on a sandbox of this spec, which has passed Refusal.
func (b *Backend) effective(spec *sandbox.Spec, tree *cgroup.Tree) sandbox.Policy {
	p := sandbox.Policy{Backend: Name, Kernel: sandbox.KernelUserSpace, Network: tap.Policy(spec.Network),
		User: spec.User, HostUID: b.hostUID(), Walls: walls(tree, true, spec.Network.Linked())}
	enforcement(spec, tree).Report(&p, spec)
	hostbox.ShowBuilder(&p, spec)
	return p
}

func (b *Backend) Preflight(spec sandbox.Spec) ([]sandbox.LimitName, error) {
	if err := b.refuse(&spec); err != nil {
		return nil, err
	}
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	list := enforcement(&spec, in.Tree)
	if err := list.Refusal(Name, &spec); err != nil {
		return list.Unenforced(), err
	}
	if spec.Root.Image != "" {
		return list.Unenforced(), b.CheckImage(spec.Root.Image)
	}
	_, err = rootfs.Folder(spec.Root)
	return list.Unenforced(), err
}

func (b *Backend) Features() []sandbox.Feature {
	return []sandbox.Feature{
		{Name: sandbox.FeatureHostRoot, Has: true},
		{Name: sandbox.FeatureRootDir, Has: true},
		{Name: sandbox.FeatureImage, Has: true},
		{Name: sandbox.FeatureHostDirs, Has: true},
		{Name: sandbox.FeatureVolumes, Has: true},
		{Name: sandbox.FeatureCommands, Detail: "refused unless waived by name: gVisor has no Landlock"},
		{Name: sandbox.FeatureInodes, Detail: "unlimited, and refused if named: gVisor's tmpfs counts bytes only"},
		{Name: sandbox.FeatureNetwork, Has: true},
		{Name: sandbox.FeatureCheckpoint, Has: true},
		{Name: sandbox.FeatureForkedPython, Detail: "an interpreter waits in each warm sandbox instead"},
		{Name: sandbox.FeatureBuild, Has: true, Detail: "as root, on Linux 5.19 or newer"},
	}
}
