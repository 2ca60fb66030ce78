package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/glovebox-dev/glovebox/internal/enforce"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// preflighting is the context of what is asked without one. Meeting an engine has bounds of its own.
func preflighting() context.Context { return context.Background() }

// Probe asks the engine what it is, and makes a sandbox once where the image is there already: that is the one test that cannot be
// wrong. It fetches nothing.
func (b *Backend) Probe(ctx context.Context) (sandbox.Posture, error) {
	posture := sandbox.Posture{Backend: b.Name(), Kernel: sandbox.KernelShared}
	to, err := b.engine.connect(ctx, pingTimeout)
	if err != nil {
		return posture, err
	}
	posture.Kernel = to.kernel()
	posture.Walls = append(to.walls(), to.imageWall(ctx, b.options.Image))
	spec := sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser}
	posture.Ready = to.enforcement(&spec).Refusal(b.Name(), &spec) == nil
	if posture.Wall("image").State != sandbox.WallEnforced {
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
	case errdefs.IsNotFound(err) && !to.engine.options.Fetch:
		return sandbox.Wall{Name: "image", State: sandbox.WallMissing, Detail: image + " is not here, and is not fetched for those who ask",
			Fix: to.engine.options.Name + " pull " + image}
	case errdefs.IsNotFound(err):
		return sandbox.Wall{Name: "image", State: sandbox.WallPartial, Detail: image + " is not here yet; it is fetched when it is first used",
			Fix: to.engine.options.Name + " pull " + image}
	}
	return sandbox.Wall{Name: "image", State: sandbox.WallMissing, Detail: err.Error()}
}

// kernel says whose kernel serves the code, by the runtime's name.
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

// runtime is what containers are run by. Podman's API leaves a runtime that is asked for out, and says nothing (podman issue 28429): it has
// that of its service.
func (to *connection) runtime() string {
	if name := to.engine.options.Runtime; name != "" && !to.podman {
		return name
	}
	return to.info.DefaultRuntime
}

// hostUID says whose id the code has on the engine's host.
func (to *connection) hostUID() string {
	if to.rootless || to.remapped {
		return "subordinate"
	}
	return "shared"
}

// walls are the lines of the posture.
func (to *connection) walls() []sandbox.Wall {
	enforced := func(name, detail string) sandbox.Wall {
		return sandbox.Wall{Name: name, State: sandbox.WallEnforced, Detail: detail}
	}
	list := []sandbox.Wall{
		enforced("engine", fmt.Sprintf("%s %s at %s (%s), API %s, runtime %s", to.engine.title(), to.info.ServerVersion, to.host, to.endpoint.why, to.api.ClientVersion(), to.runtime())),
		enforced("root", "an image, read-only; the engine's masks over /proc and /sys"),
		enforced("network", "loopback only"),
		enforced("capabilities", "none, with no_new_privs"),
		enforced("seccomp", "the guest's filter over the engine's"),
	}
	users := enforced("user ids", "the container has a user namespace")
	if to.hostUID() == "shared" {
		users = sandbox.Wall{Name: "user ids", State: sandbox.WallPartial, Detail: "the code's user id is the host's of the same number, in all containers",
			Fix: "give the engine userns-remap (https://docs.docker.com/engine/security/userns-remap), or use one that is an ordinary user's"}
	}
	if to.podman && to.hostUID() == "shared" {
		users.Fix = "use the engine of an ordinary user: systemctl --user enable --now podman.socket"
	}
	landlock := sandbox.Wall{Name: "landlock", State: sandbox.WallMissing, Detail: "not raised: the container's own mounts are what it would bound"}
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

// enforcer says what holds the sandbox to a limit.
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
		return version + " pids of the engine, the guest's threads among them"
	case sandbox.LimitDisk:
		return "tmpfs sizes: half for the workspace, a quarter for /tmp, an eighth each for home and /dev/shm"
	case sandbox.LimitInodes:
		return "tmpfs nr_inodes, shared out as the disk"
	case sandbox.LimitOpenFiles:
		return "RLIMIT_NOFILE"
	case sandbox.LimitTimeout:
		return "guest and server clocks"
	}
	return "server"
}

// policy says what holds for a sandbox of this spec, which these bounds keep. Create has refused what it must not weaken.
func (to *connection) policy(spec *sandbox.Spec, kept enforce.List) sandbox.Policy {
	p := sandbox.Policy{Backend: to.engine.options.Name, Kernel: to.kernel(), Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone},
		User: spec.User, HostUID: to.hostUID(), Walls: to.walls()}
	kept.Report(&p, spec)
	return p
}

// Features are what this backend can do.
func (b *Backend) Features() []sandbox.Feature {
	inodes := sandbox.Feature{Name: sandbox.FeatureInodes, Has: true}
	if b.Name() == Podman {
		inodes = sandbox.Feature{Name: sandbox.FeatureInodes, Detail: "unlimited, and refused where it is named: Podman's tmpfs has no option for it; they count as memory"}
	}
	return []sandbox.Feature{
		{Name: sandbox.FeatureHostRoot, Detail: "the root is an image's, " + b.options.Image + " where none is named"},
		{Name: sandbox.FeatureRootDir, Detail: "refused; import it as an image"},
		{Name: sandbox.FeatureImage, Has: true},
		{Name: sandbox.FeatureHostDirs, Has: true, Detail: "on an engine of this host; to be written to only by root's server, or where they belong to the code's user id"},
		{Name: sandbox.FeatureCommands, Detail: "refused unless let go of by name"},
		inodes,
		{Name: sandbox.FeatureMemoryAlone, Has: true},
		{Name: sandbox.FeatureCheckpoint, Detail: "what engines have, CRIU, does not hold against hostile processes"},
		{Name: sandbox.FeatureForkedPython, Detail: "sandboxes are booted ahead instead"},
	}
}
