package docker

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Paths of the guest's socket in a container.
const (
	socketDir  = "/run/fumehood"
	socketFile = "s"
)

// The file of the resolver's addresses, in a box's folder and in its container.
const (
	resolverFile = "resolv.conf"
	resolverPath = "/etc/resolv.conf"
)

// Labels of everything of ours on an engine.
const (
	labelPart     = "dev.fumehood.part"     // "sandbox", "guest", "fill"
	labelRun      = "dev.fumehood.run"      // the host and run folder of the server that made it
	labelInstance = "dev.fumehood.instance" // the instance there
	labelSandbox  = "dev.fumehood.sandbox"  // the sandbox's id
)

// masked lists the paths hidden in a container: those hidden on every backend, including Docker's own, which this list
// replaces, and /sys.
var masked = func() []string {
	list := []string{"/proc/slabinfo", "/proc/vmallocinfo", "/sys"}
	for _, name := range slices.Concat(rootfs.MaskedFiles, rootfs.MaskedFolders) {
		list = append(list, "/proc/"+name)
	}
	return list
}()

// guestCaps are the guest's capabilities until it serves: to give away writable places, become the code's user, signal
// its processes, and drop all of these in the processes it starts. It then keeps SETUID, SETGID and KILL; the code has
// none.
var guestCaps = []string{"CAP_CHOWN", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL"}

// A sandbox's resources in addition to its code's. The guest's threads exist from the start, so the code may lose a few
// process slots to them, and never gets more than requested.
const (
	ownThreads = 10
	cpuPeriod  = 100_000 // microseconds; the engine's own
)

// place is a writable file system of the container. The engine mounts it, so the guest needs no right to mount. Each
// has a share of the disk limit, the workspace the largest.
type place struct {
	target string
	parts  int64 // of allParts
	mode   uint32
	owned  bool // by the code's user
	noExec bool
}

const allParts = 8

// places lists the writable places of a spec. If a host directory is the workspace, /tmp gets its share.
func places(spec *sandbox.Spec) []place {
	list := []place{
		{target: sandbox.Workspace, parts: 4, mode: 0o755, owned: true},
		{target: "/tmp", parts: 2, mode: 0o1777},
		{target: sandbox.Home, parts: 1, mode: 0o700, owned: true},
		{target: "/dev/shm", parts: 1, mode: 0o1777, noExec: true},
	}
	if spec.Workspace != "" {
		list[1].parts += list[0].parts
		list = list[1:]
	}
	return list
}

const pageSize = 4096 // the kernel rounds sizes up to it

// varTmp is writable by everybody in most images.
const varTmp = "/var/tmp"

// tmpfs lists the writable places for the engine. Podman cannot limit inodes.
func (to *connection) tmpfs(spec *sandbox.Spec) map[string]string {
	mounts := map[string]string{}
	for _, p := range places(spec) {
		exec := "exec"
		if p.noExec {
			exec = "noexec"
		}
		size := spec.Limits.DiskBytes * p.parts / allParts / pageSize * pageSize
		mounts[p.target] = fmt.Sprintf("rw,nosuid,nodev,%s,size=%d,mode=%o", exec, size, p.mode)
		if to.podman {
			mounts[p.target] += ",notmpcopyup"
		} else {
			mounts[p.target] += ",nr_inodes=" + strconv.FormatInt(max(spec.Limits.Inodes*p.parts/allParts, 2), 10)
		}
	}
	for _, v := range spec.MemoryVolumes() {
		mounts[v.Path] = fmt.Sprintf("rw,nosuid,nodev,exec,size=%d,mode=1777", max(v.Bytes/pageSize, 1)*pageSize)
		if to.podman {
			mounts[v.Path] += ",notmpcopyup"
		} else {
			mounts[v.Path] += ",nr_inodes=" + strconv.FormatInt(max(spec.Limits.Inodes, 2), 10)
		}
	}
	if to.podman { // makes these writable and unlimited with a read-only root
		for _, target := range []string{"/run", varTmp} {
			mounts[target] = "rw,nosuid,nodev,noexec,size=65536,mode=755,notmpcopyup"
		}
	}
	return mounts
}

// plan is the guest's plan. The engine's users can read it, including the key.
func (box *Box) plan(spec *sandbox.Spec) *confine.Plan {
	p := &confine.Plan{ID: string(spec.ID), Key: box.Key[:], Code: spec.User, OneShot: !spec.Lifetime.Living,
		Lease:  int64(spec.Lifetime.GuestLease()),
		FailAt: box.backend.options.FailAt,
		Container: confine.Container{Listen: path.Join(socketDir, socketFile), Filter: confine.FilterPlain,
			Threads: ownThreads, Visited: !box.to.sockets}}
	if spec.HostWritable() {
		p.Filter |= confine.FilterHostWritable
	}
	if spec.NestedFilters {
		p.Filter |= confine.FilterNested
	}
	if p.OneShot {
		p.Lease = int64(confine.StartLease)
	}
	// Runtimes ignore the requested mode of a file system and use that of the image's folder below it.
	list := places(spec)
	if box.to.podman {
		list = append(list, place{target: varTmp, mode: 0o755})
	}
	for _, v := range spec.MemoryVolumes() {
		list = append(list, place{target: v.Path, mode: 0o1777})
	}
	for _, w := range list {
		step := confine.Step{Do: confine.Dir, Target: strings.TrimPrefix(w.target, "/"), Mode: w.mode}
		if w.owned {
			step.UID, step.GID = spec.User.UID, spec.User.GID
		}
		p.Root = append(p.Root, step)
	}
	limits, payload := confine.Rlimits(spec.Limits)
	p.Limits = limits
	for _, l := range payload {
		// The kernel counts a user's processes over all containers that share the host's user ids, and over the host.
		if l.Resource != confine.RlimitNproc {
			p.Payload = append(p.Payload, l)
		}
	}
	return p
}

// config is the engine's configuration of a box.
func (box *Box) config(spec *sandbox.Spec, image, volume string) (client.ContainerCreateOptions, error) {
	b, to := box.backend, box.to
	profile, err := box.seccomp()
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}
	pids := spec.Limits.Pids + ownThreads
	none := false
	memory := spec.Limits.MemoryBytes
	host := &container.HostConfig{
		NetworkMode: "none", ExtraHosts: []string{rootfs.Hostname + ":127.0.0.1"}, IpcMode: "private",
		CgroupnsMode:   "private",
		ReadonlyRootfs: true, Init: &none,
		CapDrop: []string{"ALL"}, CapAdd: guestCaps, SecurityOpt: append([]string{"no-new-privileges"}, profile...),
		RestartPolicy: container.RestartPolicy{Name: "no"}, LogConfig: container.LogConfig{Type: "none"},
		Tmpfs: to.tmpfs(spec), Binds: []string{guestBind(volume, "ro")}, Mounts: box.mounts(spec),
		Runtime: b.options.Runtime,
		Resources: container.Resources{
			Memory: memory, MemorySwap: memory, PidsLimit: &pids,
			CPUPeriod: cpuPeriod, CPUQuota: spec.Limits.CPUMillis * cpuPeriod / 1000,
			Ulimits: to.ulimits(spec.Limits),
		},
	}
	if to.podman {
		host.SecurityOpt = append(host.SecurityOpt, "mask="+strings.Join(masked, ":"))
	} else {
		host.MaskedPaths = masked
	}
	if !to.info.MemoryLimit {
		host.Memory, host.MemorySwap = 0, 0
	}
	if !to.info.SwapLimit {
		host.MemorySwap = 0
	}
	if !to.info.PidsLimit {
		host.PidsLimit = nil
	}
	if !to.info.CPUCfsQuota {
		host.CPUPeriod, host.CPUQuota = 0, 0
	}
	if !to.sockets {
		host.Tmpfs[socketDir] = "rw,nosuid,nodev,noexec,size=65536,mode=700"
	}
	env := []string{confine.EnvPlan + "=" + box.plan(spec).Encode(), "GOMAXPROCS=2"}
	for _, name := range runtimeVariables {
		env = append(env, name+"=")
	}
	return client.ContainerCreateOptions{Name: box.name(), HostConfig: host, Config: &container.Config{
		Image: image, User: "0:0", Hostname: rootfs.Hostname, Entrypoint: []string{guestPath}, Cmd: []string{},
		Env:          env,
		WorkingDir:   "/",
		AttachStderr: true, Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		Labels: map[string]string{labelPart: "sandbox", labelRun: b.options.runLabel(),
			labelInstance: filepath.Base(box.in.Dir), labelSandbox: string(spec.ID)},
	}}, nil
}

// runtimeVariables are read by the guest's Go runtime, so an image must not set them.
var runtimeVariables = []string{"GODEBUG", "GOGC", "GOMEMLIMIT", "GOTRACEBACK"}

// userProcesses is the limit of one user's processes for Podman, whose default may exceed what it can set. It counts
// those of all containers and the host, so it is not the sandbox's limit.
const userProcesses = 16384

// ulimitNames are the engines' names of resources, by Linux's numbers.
var ulimitNames = map[uint32]string{3: "stack", 4: "core", 7: "nofile", 8: "memlock", 11: "sigpending",
	12: "msgqueue", 13: "nice", 14: "rtprio"}

// ulimits returns the guest's initial limits. The engine's defaults may exceed what it can set.
func (to *connection) ulimits(l sandbox.Limits) []*container.Ulimit {
	guest, _ := confine.Rlimits(l)
	var list []*container.Ulimit
	for _, r := range guest {
		list = append(list, &container.Ulimit{Name: ulimitNames[r.Resource], Soft: int64(r.Soft), Hard: int64(r.Hard)})
	}
	if to.podman {
		list = append(list, &container.Ulimit{Name: "nproc", Soft: userProcesses, Hard: userProcesses})
	}
	return list
}

// mounts returns the container's mounts besides its image and its own file systems.
func (box *Box) mounts(spec *sandbox.Spec) []mount.Mount {
	bind := func(source, target string, writable bool) mount.Mount {
		// No submounts in read-only mounts: old engines leave them writable.
		return mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: !writable,
			BindOptions: &mount.BindOptions{NonRecursive: !writable}}
	}
	var list []mount.Mount
	if box.to.sockets {
		list = append(list, bind(filepath.Join(box.Dir, socketFolder), socketDir, true))
	}
	// Without this, engines copy the host's file; Podman refuses the option --dns without a network.
	if spec.Network.Linked() {
		list = append(list, bind(filepath.Join(box.Dir, resolverFile), resolverPath, false))
	}
	for _, m := range box.shown(spec) {
		list = append(list, bind(m.Source, m.Target, m.Writable))
	}
	return list
}
