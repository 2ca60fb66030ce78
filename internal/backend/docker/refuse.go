package docker

import (
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// refuse says no to what this backend cannot do on any engine.
func (b *Backend) refuse(spec *sandbox.Spec) error {
	if err := sandbox.CheckImage(b.image(spec)); err != nil {
		return err
	}
	no := func(what, msg, mend string) error {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: what, Msg: "the " + b.Name() + " backend " + msg, Mend: mend}
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
	case spec.Commands != nil:
		return no("commands", "cannot bound which programs are executed", "leave --allow-command out, or use --backend native")
	}
	return nil
}

// refuse says no to what this engine cannot do.
func (to *connection) refuse(spec *sandbox.Spec) error {
	if to.info.OSType != "" && to.info.OSType != "linux" {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": reach the engine", Msg: "it makes containers of " + to.info.OSType,
			Mend: "switch it to Linux containers"}
	}
	if asked := to.engine.options.Runtime; asked != "" && asked != to.runtime() {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": use runtime " + asked,
			Msg:  "Podman takes no runtime by its API, and this one runs containers by " + to.runtime(),
			Mend: "start its service with it, podman --runtime " + asked + " system service, or name it in containers.conf; or use --backend docker"}
	}
	if err := to.checkDirs(spec); err != nil {
		return err
	}
	return to.unenforced(spec)
}

// diskLimits are of the sandbox's own writable places; a directory of the host has the bounds of its own file system.
var diskLimits = []sandbox.LimitName{sandbox.LimitDisk, sandbox.LimitInodes}

// hostWritable says whether the code may write to a directory of the host.
func hostWritable(spec *sandbox.Spec) bool {
	return slices.ContainsFunc(hostDirs(spec), func(m sandbox.Mount) bool { return m.Writable })
}

// lacking lists the limits that this engine does not enforce, or not everywhere that the code of this spec may write to.
func (to *connection) lacking(spec *sandbox.Spec) []sandbox.LimitName {
	var names []sandbox.LimitName
	for _, l := range []struct {
		name sandbox.LimitName
		has  bool
	}{
		{sandbox.LimitMemory, to.info.MemoryLimit}, {sandbox.LimitCPUs, to.info.CPUCfsQuota}, {sandbox.LimitPids, to.info.PidsLimit},
		{sandbox.LimitDisk, !hostWritable(spec)}, {sandbox.LimitInodes, !hostWritable(spec) && !to.podman},
	} {
		if !l.has {
			names = append(names, l.name)
		}
	}
	return names
}

// never are the limits that a sandbox never goes without unasked: without them its code can take the host down.
var never = []sandbox.LimitName{sandbox.LimitMemory, sandbox.LimitPids}

// unenforced refuses limits that nothing here enforces: any that was named, and some in every case. The caller may let go of them. The
// refusal lists all at once, those that were let go of as well: what accepts the list is not refused again.
func (to *connection) unenforced(spec *sandbox.Spec) error {
	return to.lacks(spec, to.lacking(spec), "limit", to.why())
}

// lacks is the error for limits that do not hold, where the spec does not go without them.
func (to *connection) lacks(spec *sandbox.Spec, names []sandbox.LimitName, step, why string) error {
	e := &sandbox.Error{Kind: sandbox.Unsupported}
	refused, ofHost, ofDirs := false, false, false
	var words []string
	for _, name := range names {
		if !slices.Contains(never, name) && !spec.IsNamed(name) && !spec.Accepts(string(name)) {
			continue
		}
		refused = refused || !spec.Accepts(string(name))
		e.Lacks = append(e.Lacks, name)
		words = append(words, string(name))
		if slices.Contains(diskLimits, name) && hostWritable(spec) {
			ofDirs = true
		} else {
			ofHost = true
		}
	}
	if !refused {
		return nil
	}
	e.Op = to.engine.options.Name + ": " + step + " " + strings.Join(words, ", ")
	var what []string
	if ofHost {
		what = append(what, why)
	}
	if ofDirs {
		what = append(what, "nothing bounds what the code writes to a directory of the host")
		e.Mend = "leave the workdir and the writable mounts out"
	} else if ofHost {
		e.Mend = to.limitMend()
	}
	e.Msg = strings.Join(what, "; ")
	return e
}

// why says why this engine enforces less than is asked.
func (to *connection) why() string {
	switch {
	case to.rootless && to.info.CgroupVersion == "1":
		return "the engine is an ordinary user's, who has no control groups of version 1"
	case to.rootless:
		return "the engine is an ordinary user's, and its control groups were not handed to that user"
	case to.podman && to.info.MemoryLimit && to.info.PidsLimit && to.info.CPUCfsQuota:
		return "Podman has no option for it"
	}
	return "the engine says that it cannot enforce it here"
}

func (to *connection) limitMend() string {
	switch {
	case to.rootless && to.info.CgroupVersion == "1":
		return "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or use the engine of root"
	case to.rootless:
		return "have systemd delegate cpu, memory and pids to the user (Delegate= of user@.service), or use the engine of root"
	case to.podman:
		return "leave the limit out, or use --backend docker"
	}
	return "enable the controllers memory, cpu and pids on the engine's host"
}

// Foretell says which limits nothing here enforces for a spec, and why Create would refuse it.
func (b *Backend) Foretell(spec sandbox.Spec) ([]sandbox.LimitName, error) {
	if err := b.refuse(&spec); err != nil {
		return nil, err
	}
	to, err := b.engine.connect(foretelling(), pingPatience)
	if err != nil {
		return nil, err
	}
	err = to.refuse(&spec)
	if err == nil && !b.options.Fetch {
		err = to.mustHave(foretelling(), b.image(&spec))
	}
	return to.lacking(&spec), err
}
