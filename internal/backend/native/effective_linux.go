package native

import (
	"github.com/glovebox-dev/glovebox/internal/bound"
	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/sandbox"
)

var _ sandbox.Preflighter = (*Backend)(nil)

// bounds says what keeps the limits and policies of a spec here.
func (b *Backend) bounds(spec *sandbox.Spec, tree *cgroup.Tree) bound.List {
	pids := "RLIMIT_NPROC"
	if e := tree.Enforcer(cgroup.Pids); e != "" {
		pids = e + ", " + pids
	}
	list := bound.List{
		bound.Memory(tree).Kills(groupLimits(spec).MemoryBytes),
		bound.Group(sandbox.LimitCPUs, tree, cgroup.CPU),
		{Name: sandbox.LimitPids, By: pids},
		bound.Directories(bound.Bound{Name: sandbox.LimitDisk, By: "tmpfs size"}, spec),
		bound.Directories(bound.Bound{Name: sandbox.LimitInodes, By: "tmpfs nr_inodes"}, spec),
		{Name: sandbox.LimitOpenFiles, By: "RLIMIT_NOFILE"},
		{Name: sandbox.LimitTimeout, By: "guest and server clocks"},
		{Name: sandbox.LimitOutput, By: "server"},
	}
	if spec.Commands != nil {
		list = append(list, b.commandsBound())
	}
	return list
}

// commandsBound is what keeps the list of allowed programs: no other has its file in the sandbox, and Landlock lets only theirs be
// executed. Without Landlock the dynamic linker, which must be there, can be executed with another file as its argument.
func (b *Backend) commandsBound() bound.Bound {
	c := bound.Bound{Name: sandbox.PolicyCommands, By: "the files that are there, Landlock"}
	if wall := b.landlockWall(); wall.State == sandbox.WallMissing {
		c.By, c.Gap = "the files that are there", "not for what the dynamic linker can be made to load"
		c.Why, c.Fix = "without Landlock the dynamic linker can be made to load any program: "+wall.Detail, wall.Fix
	}
	return c
}

// effective says what holds for a sandbox of this spec. Create has refused what it must not weaken.
func (b *Backend) effective(spec *sandbox.Spec, tree *cgroup.Tree, hostUID string) sandbox.Policy {
	p := sandbox.Policy{Backend: Name, Kernel: sandbox.KernelShared, Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone},
		User: spec.User, HostUID: hostUID, Walls: b.walls(tree, hostUID)}
	b.bounds(spec, tree).Tell(&p, spec)
	return p
}

// Preflight says which limits nothing here keeps for a spec, and why Create would refuse it.
func (b *Backend) Preflight(spec sandbox.Spec) ([]sandbox.LimitName, error) {
	if err := b.refuse(&spec); err != nil {
		return nil, err
	}
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	list := b.bounds(&spec, in.Tree)
	if err := list.Refusal(Name, &spec); err != nil {
		return list.Lacking(), err
	}
	_, _, err = b.staticSteps(&spec)
	return list.Lacking(), err
}
