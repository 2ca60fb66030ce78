package native

import (
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// effective says what holds for a sandbox of this spec. Create has refused what it must not weaken.
func (b *Backend) effective(spec *sandbox.Spec, tree *cgroup.Tree, hostUID string) sandbox.Policy {
	p := sandbox.Policy{
		Backend: Name, Kernel: sandbox.KernelShared, Limits: spec.Limits, Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone},
		User: spec.User, HostUID: hostUID, Commands: spec.Commands,
		Enforcers: map[sandbox.LimitName]string{
			sandbox.LimitPids: "RLIMIT_NPROC", sandbox.LimitDisk: "tmpfs size", sandbox.LimitInodes: "tmpfs nr_inodes",
			sandbox.LimitOpenFiles: "RLIMIT_NOFILE", sandbox.LimitTimeout: "guest and server clocks", sandbox.LimitOutput: "server",
		},
		Walls: b.walls(tree, hostUID),
	}
	if e := tree.Enforcer(cgroup.Pids); e != "" {
		p.Enforcers[sandbox.LimitPids] = e + ", RLIMIT_NPROC"
	}
	for _, c := range []struct {
		name       sandbox.LimitName
		controller cgroup.Controller
	}{{sandbox.LimitMemory, cgroup.Memory}, {sandbox.LimitCPUs, cgroup.CPU}} {
		if e := tree.Enforcer(c.controller); e != "" {
			p.Enforcers[c.name] = e
			continue
		}
		p.Limits.Set(c.name, sandbox.Unlimited)
		if slices.Contains(spec.AcceptWeaker, string(c.name)) {
			p.Weaker = append(p.Weaker, string(c.name))
		} else {
			p.Warnings = append(p.Warnings, "nothing on this host bounds "+string(c.name)+"; it is unlimited")
		}
	}
	if hostWritable(spec) {
		for _, name := range diskLimits {
			if spec.Accepts(string(name)) {
				p.Weaker = append(p.Weaker, string(name))
			}
		}
		p.Enforcers[sandbox.LimitDisk] += ", not for what is written to the host's directories"
		p.Enforcers[sandbox.LimitInodes] += ", not for what is written to the host's directories"
	}
	return p
}

// Foretell says which limits nothing here enforces for a spec, and why Create would refuse it.
func (b *Backend) Foretell(spec sandbox.Spec) ([]sandbox.LimitName, error) {
	if err := b.refuse(&spec); err != nil {
		return nil, err
	}
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	lacking := lackingHere(&spec, in.Tree)
	if err := unenforced(&spec, in.Tree); err != nil {
		return lacking, err
	}
	_, _, err = b.staticSteps(&spec)
	return lacking, err
}

// diskLimits are of the sandbox's own writable places; a directory of the host has the bounds of its own file system.
var diskLimits = []sandbox.LimitName{sandbox.LimitDisk, sandbox.LimitInodes}

// hostWritable says whether the code may write to a directory of the host.
func hostWritable(spec *sandbox.Spec) bool {
	return spec.Workdir != "" || slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Writable })
}

// lackingHere lists the limits that nothing here enforces, or not everywhere that the code of this spec may write to.
func lackingHere(spec *sandbox.Spec, tree *cgroup.Tree) []sandbox.LimitName {
	var names []sandbox.LimitName
	if tree.Enforcer(cgroup.Memory) == "" {
		names = append(names, sandbox.LimitMemory)
	}
	if tree.Enforcer(cgroup.CPU) == "" {
		names = append(names, sandbox.LimitCPUs)
	}
	if hostWritable(spec) {
		names = append(names, diskLimits...)
	}
	return names
}

// unenforced refuses limits that nothing here enforces: any that was named, and memory in every case. The caller may let go of
// them. The refusal lists all at once, those that were let go of as well: what accepts the list is not refused again.
func unenforced(spec *sandbox.Spec, tree *cgroup.Tree) error {
	e := &sandbox.Error{Kind: sandbox.Unsupported}
	refused := false
	var ofHost, ofDisk bool
	for _, name := range lackingHere(spec, tree) {
		asked := name == sandbox.LimitMemory || spec.IsNamed(name)
		if !asked && !spec.Accepts(string(name)) {
			continue
		}
		refused = refused || !spec.Accepts(string(name))
		e.Lacks = append(e.Lacks, name)
		disk := slices.Contains(diskLimits, name)
		ofHost, ofDisk = ofHost || !disk, ofDisk || disk
	}
	if !refused {
		return nil
	}
	names := make([]string, len(e.Lacks))
	for i, name := range e.Lacks {
		names[i] = string(name)
	}
	e.Op = "native: limit " + strings.Join(names, ", ")
	var what, mend []string
	if ofHost {
		what, mend = append(what, "nothing on this host can enforce it: "+tree.Detail()), append(mend, tree.Mend())
	}
	if ofDisk {
		what = append(what, "nothing bounds what the code writes to a directory of the host")
		mend = append(mend, "leave the workdir and the writable mounts out, as nothing bounds what is written there")
	}
	e.Msg, e.Mend = strings.Join(what, "; "), strings.Join(mend, "; and ")
	return e
}
