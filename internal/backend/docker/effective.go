package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/fumehood-dev/fumehood/internal/host/enforce"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Probe queries the engine. If the engine has the image, it also creates one sandbox, the only reliable test. It
// fetches nothing.
func (b *Backend) Probe(ctx context.Context) (sandbox.Posture, error) {
	posture := sandbox.Posture{Backend: b.Name(), Kernel: sandbox.KernelShared}
	to, err := b.engine.connect(ctx, pingTimeout)
	if err != nil {
		return posture, err
	}
	posture.Kernel = to.kernel()
	posture.Walls = append(to.walls(false), tap.WallOf(to.linkable()), to.imageWall(ctx, b.options.Image))
	spec := sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser}
	posture.Ready = to.enforcement(&spec).Refusal(b.Name(), &spec) == nil
	if posture.Wall("image").State != sandbox.WallEnforced {
		posture.Ready = false
		return posture, nil
	}
	for _, l := range to.enforcement(&spec).Unenforced() {
		spec.AllowUnenforced = append(spec.AllowUnenforced, string(l))
	}
	box, err := b.Create(ctx, spec)
	if err != nil {
		return posture, err
	}
	return posture, box.Close()
}

func (to *connection) imageWall(ctx context.Context, image string) sandbox.Wall {
	err := to.inspect(ctx, image)
	switch {
	case err == nil:
		return sandbox.Wall{Name: "image", State: sandbox.WallEnforced, Detail: image}
	case errdefs.IsNotFound(err):
		return sandbox.Wall{Name: "image", State: sandbox.WallMissing, Detail: image + " is not here",
			Fix: to.engine.options.Name + " pull " + image}
	}
	return sandbox.Wall{Name: "image", State: sandbox.WallMissing, Detail: err.Error()}
}

// kernel derives the kind of kernel from the runtime's name.
func (to *connection) kernel() sandbox.Kernel {
	runtime := to.runtime()
	switch {
	case strings.Contains(runtime, "runsc"):
		return sandbox.KernelUserSpace
	case strings.Contains(runtime, "kata"), strings.Contains(runtime, "krun"):
		return sandbox.KernelMachine
	}
	return sandbox.KernelShared
}

// runtime returns the containers' runtime. Podman's API ignores a requested runtime (podman issue 28429) and uses its
// service's.
func (to *connection) runtime() string {
	if name := to.engine.options.Runtime; name != "" && !to.podman {
		return name
	}
	return to.info.DefaultRuntime
}

// hostUID returns the kind of user id that the code has on the engine's host.
func (to *connection) hostUID() string {
	if to.rootless || to.remapped {
		return "subordinate"
	}
	return "shared"
}

// walls lists the isolation layers of the posture. A linked sandbox has a network.
func (to *connection) walls(linked bool) []sandbox.Wall {
	enforced := func(name, detail string) sandbox.Wall {
		return sandbox.Wall{Name: name, State: sandbox.WallEnforced, Detail: detail}
	}
	list := []sandbox.Wall{
		enforced("engine", fmt.Sprintf("%s %s at %s (%s), API %s, runtime %s", to.engine.title(), to.info.ServerVersion,
			to.host, to.endpoint.why, to.api.ClientVersion(), to.runtime())),
		enforced("root", "an image, read-only; the engine's masks over /proc and /sys"),
		enforced("network", tap.Detail(linked)),
		enforced("capabilities", "none, with no_new_privs"),
		enforced("seccomp", "the guest's filter over the engine's"),
	}
	users := enforced("user ids", "the container has a user namespace")
	if to.hostUID() == "shared" {
		users = sandbox.Wall{Name: "user ids", State: sandbox.WallPartial,
			Detail: "the code has the host's user id of the same number, in every container",
			Fix: "enable userns-remap (https://docs.docker.com/engine/security/userns-remap), or use a " +
				"rootless engine"}
	}
	if to.podman && to.hostUID() == "shared" {
		users.Fix = "use a rootless engine: systemctl --user enable --now podman.socket"
	}
	landlock := sandbox.Wall{Name: "landlock", State: sandbox.WallMissing,
		Detail: "not used: the container's own mounts already limit which files exist"}
	list = append(list, users, landlock)
	lacking := to.enforcement(&sandbox.Spec{}).Unenforced()
	for _, name := range []sandbox.LimitName{sandbox.LimitMemory, sandbox.LimitCPUs, sandbox.LimitPids} {
		w := enforced("limit "+string(name), to.enforcer(name))
		if slices.Contains(lacking, name) {
			w = sandbox.Wall{Name: w.Name, State: sandbox.WallMissing, Detail: to.why(), Fix: to.limitFix()}
		}
		list = append(list, w)
	}
	return list
}

// enforcer names what enforces a limit.
func (to *connection) enforcer(name sandbox.LimitName) string {
	version := "cgroup v" + to.info.CgroupVersion
	switch name {
	case sandbox.LimitMemory:
		if !to.info.SwapLimit {
			return version + " memory of the engine, swap not counted"
		}
		return version + " memory of the engine"
	case sandbox.LimitCPUs:
		return version + " cpu of the engine"
	case sandbox.LimitPids:
		return version + " pids of the engine, including the guest's threads"
	case sandbox.LimitDisk:
		return "tmpfs sizes: half for the workspace, a quarter for /tmp, an eighth each for home and /dev/shm"
	case sandbox.LimitInodes:
		return "tmpfs nr_inodes, in the same shares as the disk"
	case sandbox.LimitOpenFiles:
		return "RLIMIT_NOFILE"
	case sandbox.LimitTimeout:
		return "guest and server clocks"
	}
	return "server"
}

// policy returns the policy that is enforced on a sandbox of this spec, which has passed Refusal.
func (to *connection) policy(spec *sandbox.Spec, kept enforce.List) sandbox.Policy {
	p := sandbox.Policy{Backend: to.engine.options.Name, Kernel: to.kernel(), Network: tap.Policy(spec.Network),
		User: spec.User, HostUID: to.hostUID(), Walls: to.walls(spec.Network.Linked())}
	kept.Report(&p, spec)
	return p
}

func (b *Backend) Features() []sandbox.Feature {
	inodes := sandbox.Feature{Name: sandbox.FeatureInodes, Has: true}
	if b.Name() == Podman {
		inodes = sandbox.Feature{Name: sandbox.FeatureInodes,
			Detail: "unlimited, and refused if named: Podman's tmpfs has no option for it; inodes count as memory"}
	}
	return []sandbox.Feature{
		{Name: sandbox.FeatureHostRoot, Detail: "the root is an image, by default " + b.options.Image},
		{Name: sandbox.FeatureRootDir, Detail: "refused; import it as an image"},
		{Name: sandbox.FeatureImage, Has: true},
		{Name: sandbox.FeatureHostDirs, Has: true,
			Detail: "on an engine of this host; writable only if root runs fumehood or the code's user id owns them"},
		{Name: sandbox.FeatureVolumes, Has: true,
			Detail: "named ones only if root runs fumehood, with root's engine on this host"},
		{Name: sandbox.FeatureCommands, Detail: "refused unless waived by name"},
		inodes,
		{Name: sandbox.FeatureNetwork, Has: true,
			Detail: "as root, with root's engine on this host and a runtime that shares its kernel"},
		{Name: sandbox.FeatureCheckpoint, Detail: "engines use CRIU, which is not safe with hostile processes"},
		{Name: sandbox.FeatureForkedPython, Detail: "an interpreter waits in each warm sandbox instead"},
		{Name: sandbox.FeatureBuild, Detail: "templates are built on native and gvisor"},
	}
}
