package native

import (
	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/enforce"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Preflighter = (*Backend)(nil)

// enforcement lists what this backend enforces of a spec's limits and policies.
func (b *Backend) enforcement(spec *sandbox.Spec, tree *cgroup.Tree) enforce.List {
	pids := "RLIMIT_NPROC"
	if e := tree.Enforcer(cgroup.Pids); e != "" {
		pids = e + ", " + pids
	}
	list := enforce.List{
		enforce.Memory(tree).Counts(0),
		enforce.Group(sandbox.LimitCPUs, tree, cgroup.CPU),
		{Name: sandbox.LimitPids, By: pids},
		enforce.Directories(enforce.Limit{Name: sandbox.LimitDisk, By: "tmpfs size"}, spec),
		enforce.Directories(enforce.Limit{Name: sandbox.LimitInodes, By: "tmpfs nr_inodes"}, spec),
		{Name: sandbox.LimitOpenFiles, By: "RLIMIT_NOFILE"},
		{Name: sandbox.LimitTimeout, By: "guest and server clocks"},
		{Name: sandbox.LimitOutput, By: "server"},
	}
	if spec.Commands != nil {
		list = append(list, b.commandsLimit())
	}
	return list
}

// commandsLimit enforces the list of allowed programs: the sandbox holds no other program, and Landlock permits
// executing only their files. Without Landlock, code can execute the dynamic linker, which must exist, with another
// file as argument.
func (b *Backend) commandsLimit() enforce.Limit {
	c := enforce.Limit{Name: sandbox.PolicyCommands, By: "the existing files, Landlock"}
	if wall := b.landlockWall(); wall.State == sandbox.WallMissing {
		c.By, c.Gap = "the existing files", "not for files that the dynamic linker loads"
		c.Why, c.Fix = "without Landlock the dynamic linker can load any program: "+wall.Detail, wall.Fix
	}
	return c
}

// effective returns the policy that is enforced on a sandbox of this spec, which has passed Refusal.
func (b *Backend) effective(spec *sandbox.Spec, tree *cgroup.Tree, hostUID string) sandbox.Policy {
	p := sandbox.Policy{Backend: Name, Kernel: sandbox.KernelShared, Network: tap.Policy(spec.Network),
		User: spec.User, HostUID: hostUID, Walls: b.walls(tree, hostUID, spec.Network.Linked())}
	b.enforcement(spec, tree).Report(&p, spec)
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
	list := b.enforcement(&spec, in.Tree)
	if err := list.Refusal(Name, &spec); err != nil {
		return list.Unenforced(), err
	}
	if spec.Root.Image != "" {
		return list.Unenforced(), b.CheckImage(spec.Root.Image)
	}
	_, _, err = b.staticSteps(&spec)
	return list.Unenforced(), err
}

func (b *Backend) Features() []sandbox.Feature {
	return []sandbox.Feature{
		{Name: sandbox.FeatureHostRoot, Has: true},
		{Name: sandbox.FeatureRootDir, Has: true},
		{Name: sandbox.FeatureImage, Has: true},
		{Name: sandbox.FeatureHostDirs, Has: true},
		{Name: sandbox.FeatureVolumes, Has: true},
		{Name: sandbox.FeatureCommands, Has: true},
		{Name: sandbox.FeatureInodes, Has: true},
		{Name: sandbox.FeatureCheckpoint, Detail: "the kernel has none that is safe with hostile processes"},
		{Name: sandbox.FeatureForkedPython, Has: true},
		{Name: sandbox.FeatureBuild, Has: true, Detail: "as root, on Linux 5.19 or newer"},
		{Name: sandbox.FeatureNetwork, Has: true},
	}
}
