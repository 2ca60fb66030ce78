package docker

import (
	"context"

	"github.com/fumehood-dev/fumehood/internal/host/enforce"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// refuse returns an error for a spec that this backend supports on no engine.
func (b *Backend) refuse(spec *sandbox.Spec) error {
	if err := sandbox.CheckImage(b.image(spec)); err != nil {
		return err
	}
	if spec.Root.Dir != "" {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "root", Msg: "the " + b.Name() +
			" backend needs an image, not a root directory",
			Fix:   "import the directory as an image: tar -C DIR -c . | " + b.Name() + " import - NAME",
			Fixes: []sandbox.Hint{sandbox.ChooseImage("NAME")}}
	}
	return enforce.Refuse(b.Name(), spec)
}

// refuse returns an error for a spec that this engine does not support.
func (to *connection) refuse(spec *sandbox.Spec) error {
	if to.info.OSType != "" && to.info.OSType != "linux" {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": reach the engine",
			Msg: "it runs " + to.info.OSType + " containers",
			Fix: "switch it to Linux containers"}
	}
	if requested := to.engine.options.Runtime; requested != "" && requested != to.runtime() {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": use runtime " + requested,
			Msg:   "Podman's API cannot select a runtime, and this service uses " + to.runtime(),
			Fix:   "podman --runtime " + requested + " system service; or set the runtime in containers.conf",
			Fixes: []sandbox.Hint{sandbox.ChooseBackend("docker")}}
	}
	if err := to.checkDirs(spec); err != nil {
		return err
	}
	if spec.Network.Linked() {
		if err := to.linkable(); err != nil {
			return err
		}
	}
	return to.enforcement(spec).Refusal(to.engine.options.Name, spec)
}

// enforcement lists what this engine enforces of a spec's limits and policies.
func (to *connection) enforcement(spec *sandbox.Spec) enforce.List {
	engines := func(name sandbox.LimitName, has, must bool) enforce.Limit {
		b := enforce.Limit{Name: name, Mandatory: must}
		if has {
			b.By = to.enforcer(name)
		} else {
			b.Why, b.Fix = to.why(), to.limitFix()
		}
		return b
	}
	inodes := enforce.Directories(enforce.Limit{Name: sandbox.LimitInodes, By: to.enforcer(sandbox.LimitInodes)}, spec)
	if to.podman {
		inodes = enforce.Limit{Name: sandbox.LimitInodes, Documented: true,
			Why: "Podman's tmpfs has no option to limit inodes",
			Fix: "leave inodes out, or use the docker backend"}
	}
	list := enforce.List{
		engines(sandbox.LimitMemory, to.info.MemoryLimit, true).Counts(0),
		engines(sandbox.LimitCPUs, to.info.CPUCfsQuota, false),
		// nothing else enforces it, and unlimited processes take the host down
		engines(sandbox.LimitPids, to.info.PidsLimit, true),
		enforce.Directories(enforce.Limit{Name: sandbox.LimitDisk, By: to.enforcer(sandbox.LimitDisk)}, spec),
		inodes,
	}
	for _, name := range []sandbox.LimitName{sandbox.LimitOpenFiles, sandbox.LimitTimeout, sandbox.LimitOutput} {
		list = append(list, enforce.Limit{Name: name, By: to.enforcer(name)})
	}
	if spec.Commands != nil {
		list = append(list, enforce.Limit{Name: sandbox.PolicyCommands, Documented: true,
			Why: "this backend cannot limit which programs are executed",
			Fix: "use the native backend"})
	}
	return list
}

// why explains why this engine enforces less than requested.
func (to *connection) why() string {
	switch {
	case to.rootless && to.info.CgroupVersion == "1":
		return "a rootless engine has no control groups on cgroup v1"
	case to.rootless:
		return "the rootless engine's control groups were not delegated to its user"
	}
	return "the engine reports that it cannot enforce it here"
}

func (to *connection) limitFix() string {
	switch {
	case to.rootless && to.info.CgroupVersion == "1":
		return "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or use root's engine"
	case to.rootless:
		return "delegate cpu, memory and pids to the user in systemd (Delegate= of user@.service), or use root's engine"
	}
	return "enable the controllers memory, cpu and pids on the engine's host"
}

func (b *Backend) Preflight(spec sandbox.Spec) ([]sandbox.LimitName, error) {
	if err := b.refuse(&spec); err != nil {
		return nil, err
	}
	to, err := b.engine.connect(context.Background(), pingTimeout)
	if err != nil {
		return nil, err
	}
	err = to.refuse(&spec)
	if err == nil && !b.options.Fetch {
		err = to.mustHave(context.Background(), b.image(&spec))
	}
	return to.enforcement(&spec).Unenforced(), err
}
