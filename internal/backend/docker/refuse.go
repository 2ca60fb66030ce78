package docker

import (
	"github.com/glovebox-dev/glovebox/internal/bound"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// refuse says no to what this backend cannot do on any engine.
func (b *Backend) refuse(spec *sandbox.Spec) error {
	if err := sandbox.CheckImage(b.image(spec)); err != nil {
		return err
	}
	no := func(what, msg, fix string) error {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: what, Msg: "the " + b.Name() + " backend " + msg, Fix: fix}
	}
	switch {
	case len(spec.Devices) > 0:
		return no("devices", "hands no devices in", "")
	case spec.Network.Mode != "" && spec.Network.Mode != sandbox.NetworkNone:
		return no("network", "has no way out to the network yet", "")
	case spec.User.UID == 0:
		return no("user", "does not run code as uid 0", "")
	case spec.Root.Dir != "":
		return no("root", "makes its root of an image, not of a directory", "name one with --image, or import the directory: tar -C DIR -c . | "+b.Name()+" import - NAME")
	}
	return nil
}

// refuse says no to what this engine cannot do.
func (to *connection) refuse(spec *sandbox.Spec) error {
	if to.info.OSType != "" && to.info.OSType != "linux" {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": reach the engine", Msg: "it makes containers of " + to.info.OSType,
			Fix: "switch it to Linux containers"}
	}
	if asked := to.engine.options.Runtime; asked != "" && asked != to.runtime() {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": use runtime " + asked,
			Msg: "Podman takes no runtime by its API, and this one runs containers by " + to.runtime(),
			Fix: "start its service with it, podman --runtime " + asked + " system service, or name it in containers.conf; or use --backend docker"}
	}
	if err := to.checkDirs(spec); err != nil {
		return err
	}
	return to.bounds(spec).Refusal(to.engine.options.Name, spec)
}

// bounds says what keeps the limits and policies of a spec here.
func (to *connection) bounds(spec *sandbox.Spec) bound.List {
	engines := func(name sandbox.LimitName, has, must bool) bound.Bound {
		b := bound.Bound{Name: name, Must: must}
		if has {
			b.By = to.enforcer(name)
		} else {
			b.Why, b.Fix = to.why(), to.limitFix()
		}
		return b
	}
	inodes := bound.Directories(bound.Bound{Name: sandbox.LimitInodes, By: to.enforcer(sandbox.LimitInodes)}, spec)
	if to.podman {
		inodes = bound.Bound{Name: sandbox.LimitInodes, Told: true, Why: "Podman's file systems in memory have no option for a bound of inodes",
			Fix: "leave inodes out, or use --backend docker"}
	}
	list := bound.List{
		engines(sandbox.LimitMemory, to.info.MemoryLimit, true).Kills(memoryLimit(spec)),
		engines(sandbox.LimitCPUs, to.info.CPUCfsQuota, false),
		engines(sandbox.LimitPids, to.info.PidsLimit, true), // nothing else keeps it, and processes without end take the host down
		bound.Directories(bound.Bound{Name: sandbox.LimitDisk, By: to.enforcer(sandbox.LimitDisk)}, spec),
		inodes,
	}
	for _, name := range []sandbox.LimitName{sandbox.LimitOpenFiles, sandbox.LimitTimeout, sandbox.LimitOutput} {
		list = append(list, bound.Bound{Name: name, By: to.enforcer(name)})
	}
	if spec.Commands != nil {
		list = append(list, bound.Bound{Name: sandbox.PolicyCommands, Told: true, Why: "in a container nothing bounds which programs are executed",
			Fix: "use the native backend"})
	}
	return list
}

// why says why this engine enforces less than is asked.
func (to *connection) why() string {
	switch {
	case to.rootless && to.info.CgroupVersion == "1":
		return "the engine is an ordinary user's, who has no control groups of version 1"
	case to.rootless:
		return "the engine is an ordinary user's, and its control groups were not handed to that user"
	}
	return "the engine says that it cannot enforce it here"
}

func (to *connection) limitFix() string {
	switch {
	case to.rootless && to.info.CgroupVersion == "1":
		return "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or use the engine of root"
	case to.rootless:
		return "have systemd delegate cpu, memory and pids to the user (Delegate= of user@.service), or use the engine of root"
	}
	return "enable the controllers memory, cpu and pids on the engine's host"
}

// Preflight says which limits nothing here enforces for a spec, and why Create would refuse it.
func (b *Backend) Preflight(spec sandbox.Spec) ([]sandbox.LimitName, error) {
	if err := b.refuse(&spec); err != nil {
		return nil, err
	}
	to, err := b.engine.connect(preflighting(), pingTimeout)
	if err != nil {
		return nil, err
	}
	err = to.refuse(&spec)
	if err == nil && !b.options.Fetch {
		err = to.mustHave(preflighting(), b.image(&spec))
	}
	return to.bounds(&spec).Lacking(), err
}
