package gvisor

import (
	"context"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Probe makes a sandbox once and takes it down again; that is the one test that cannot be wrong.
func (b *Backend) Probe(ctx context.Context) (sandbox.Posture, error) {
	posture := sandbox.Posture{Backend: Name, Kernel: sandbox.KernelUserSpace}
	in, err := b.instance()
	if err != nil {
		return posture, err
	}
	spec := sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser,
		AcceptWeaker: []string{string(sandbox.LimitMemory), string(sandbox.LimitCPUs)}}
	box, err := b.Create(ctx, spec)
	posture.Walls = walls(in.Tree, err == nil)
	if err != nil {
		return posture, err
	}
	posture.Ready = in.Tree.Enforcer(cgroup.Memory) != ""
	return posture, box.Close()
}

// walls are the lines of the posture.
func walls(tree *cgroup.Tree, made bool) []sandbox.Wall {
	stands := sandbox.WallStands
	if !made {
		stands = sandbox.WallMissing
	}
	list := []sandbox.Wall{
		{Name: "kernel", State: stands, Detail: "gVisor, in a process without access to the host's files or network, behind a system call filter"},
		{Name: "root", State: stands, Detail: "read-only, served by a process of its own; /proc, /sys and /dev are gVisor's"},
		{Name: "network", State: stands, Detail: "loopback only"},
		{Name: "capabilities", State: stands, Detail: "none, with no_new_privs"},
	}
	for _, c := range []struct {
		name       sandbox.LimitName
		controller cgroup.Controller
	}{{sandbox.LimitMemory, cgroup.Memory}, {sandbox.LimitCPUs, cgroup.CPU}} {
		w := sandbox.Wall{Name: "limit " + string(c.name), State: sandbox.WallStands, Detail: tree.Enforcer(c.controller)}
		if w.Detail == "" {
			w.State, w.Detail, w.Mend = sandbox.WallMissing, "nothing bounds it: "+tree.Detail(), tree.Mend()
		}
		list = append(list, w)
	}
	return append(list, sandbox.Wall{Name: "limit " + string(sandbox.LimitPids), State: sandbox.WallStands, Detail: "RLIMIT_NPROC of gVisor"})
}

// effective says what holds for a sandbox of this spec. Create has refused what it must not weaken.
func (b *Backend) effective(spec *sandbox.Spec, tree *cgroup.Tree) sandbox.Policy {
	p := sandbox.Policy{
		Backend: Name, Kernel: sandbox.KernelUserSpace, Limits: spec.Limits, Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone},
		User: spec.User, HostUID: b.hostUID(),
		Enforcers: map[sandbox.LimitName]string{
			sandbox.LimitPids: "RLIMIT_NPROC of gVisor", sandbox.LimitDisk: "tmpfs size",
			sandbox.LimitOpenFiles: "RLIMIT_NOFILE", sandbox.LimitTimeout: "guest and server clocks", sandbox.LimitOutput: "server",
		},
		Walls: walls(tree, true),
	}
	for _, c := range bounded {
		if e := tree.Enforcer(c.controller); c.controller != "" && e != "" {
			p.Enforcers[c.name] = e
			continue
		}
		p.Limits.Set(c.name, sandbox.Unlimited)
		if spec.Accepts(string(c.name)) {
			p.Weaker = append(p.Weaker, string(c.name))
		} else if c.controller != "" {
			p.Warnings = append(p.Warnings, "nothing on this host bounds "+string(c.name)+"; it is unlimited")
		}
	}
	return p
}

// bounded are the limits that something on the host has to enforce, or that nothing does. Memory is never left unbounded unasked.
var bounded = []struct {
	name       sandbox.LimitName
	controller cgroup.Controller // "" is nothing: gVisor's file systems in memory count no inodes
}{{sandbox.LimitMemory, cgroup.Memory}, {sandbox.LimitCPUs, cgroup.CPU}, {sandbox.LimitInodes, ""}}

// unenforced refuses a limit that nothing here enforces: any that was named, and memory in every case. The caller may let go of it.
func unenforced(spec *sandbox.Spec, tree *cgroup.Tree) error {
	for _, c := range bounded {
		named := spec.IsNamed(c.name) || c.name == sandbox.LimitMemory
		if !named || spec.Accepts(string(c.name)) || c.controller != "" && tree.Enforcer(c.controller) != "" {
			continue
		}
		msg := "gVisor cannot enforce it"
		if c.controller != "" {
			msg = "nothing on this host can enforce it: " + tree.Detail()
		}
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "gvisor: limit " + string(c.name), Msg: msg,
			Mend: "go without: --accept-weaker " + string(c.name)}
	}
	return nil
}
