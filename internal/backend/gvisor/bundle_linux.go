package gvisor

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/internal/host/seccomp"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// guestCaps are the guest's capabilities, only inside gVisor's kernel: to make and give away the writable places,
// become the code's user, signal its processes, and drop all of these in the processes it starts.
var guestCaps = []string{"CAP_SYS_ADMIN", "CAP_CHOWN", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP",
	"CAP_KILL", "CAP_SYS_RESOURCE"}

// foreign reports whether gVisor refuses a limit, as it lacks the limited resource.
func foreign(l confine.Rlimit) bool {
	return slices.Contains([]uint32{unix.RLIMIT_MSGQUEUE, unix.RLIMIT_SIGPENDING, unix.RLIMIT_RTPRIO, unix.RLIMIT_NICE},
		l.Resource)
}

// mapped returns the ids of the box's host processes: gVisor's own run as the guest's id, and act for the code as the
// code's.
func (b *Backend) mapped(code uint32, p *hostid.Pair) []specs.LinuxIDMapping {
	if p != nil {
		return []specs.LinuxIDMapping{{ContainerID: 0, HostID: p.Guest, Size: 1},
			{ContainerID: code, HostID: p.Code, Size: 1}}
	}
	var same []specs.LinuxIDMapping // runsc starts in a namespace that already has this mapping
	for _, l := range b.callerMap().Lines {
		same = append(same, specs.LinuxIDMapping{ContainerID: l.Inside, HostID: l.Inside, Size: 1})
	}
	return same
}

// bundle writes runsc's config.json into the box's folder. It holds the guest's key, so only its owner may read it.
// memory reports whether the memory limit is enforced.
func (box *Box) bundle(spec *sandbox.Spec, s *staging, memory bool) error {
	guest, folder, caps := guestPath, socketDir, guestCaps
	if spec.Root.Writable {
		guest, folder, caps = builderGuest, builderSocket, append(slices.Clone(caps), "CAP_DAC_OVERRIDE")
	}
	plan := &confine.Plan{ID: string(spec.ID), Key: box.Key[:], Code: spec.User, Builder: spec.Root.Writable,
		Container: confine.Container{Listen: path.Join(folder, socketFile)}, OneShot: !spec.Lifetime.Living,
		Lease: int64(spec.Lifetime.GuestLease()), FailAt: box.backend.options.FailAt}
	if memory {
		plan.Memory = uint64(spec.Limits.MemoryBytes)
	}
	if plan.OneShot {
		plan.Lease = int64(confine.StartLease)
	}
	limits, payload := confine.Rlimits(spec.Limits)
	// The same filter as on a shared kernel, in addition to gVisor's own refusals.
	plan.Seccomp = seccomp.New(seccomp.Options{HostWritable: spec.HostWritable(),
		NestedFilters: spec.NestedFilters}).Compile()
	for i := range payload { // gVisor allows one process more than the limit
		if l := &payload[i]; l.Resource == unix.RLIMIT_NPROC && l.Hard > 1 {
			l.Soft, l.Hard = l.Soft-1, l.Hard-1
		}
	}
	plan.Limits, plan.Payload = slices.DeleteFunc(limits, foreign), payload
	if spec.Root.Writable {
		plan.Guest = sandbox.User{UID: hostid.RangeIDs, GID: hostid.RangeIDs}
		plan.Root = builderPlaces(spec)
	} else {
		writable := rootfs.Writable(spec.Limits, spec.User, spec.Workspace != "", false)
		plan.Root = rootfs.CoverProcessors(writable, spec.Limits)
	}
	for _, v := range spec.MemoryVolumes() {
		plan.Root = append(plan.Root, rootfs.Memory(v, spec.Limits, false))
	}
	config := specs.Spec{
		Version:  "1.0.0",
		Hostname: rootfs.Hostname,
		Root:     &specs.Root{Path: s.path(stagingRoot), Readonly: !spec.Root.Writable},
		Process: &specs.Process{
			Args: []string{guest}, Env: []string{confine.EnvPlan + "=" + plan.Encode(), "GOMAXPROCS=2"}, Cwd: "/",
			NoNewPrivileges: true,
			Capabilities:    &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
		Mounts: append([]specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs"},
		}, s.mounts...),
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: specs.UserNamespace}, {Type: specs.PIDNamespace},
			networkOf(spec),
			{Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}},
			UIDMappings: box.backend.mapped(spec.User.UID, box.IDs), GIDMappings: box.backend.mapped(spec.User.GID,
				box.IDs)},
	}
	if spec.Root.Writable {
		ids := builderIDs(box.IDs)
		config.Linux.UIDMappings, config.Linux.GIDMappings = ids, ids
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(box.Dir, "config.json"), text, 0o600)
}
