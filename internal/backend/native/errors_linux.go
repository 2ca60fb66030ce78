package native

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/fork"
	"github.com/glovebox-dev/glovebox/internal/guest/confine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// at names the step that failed. What a later step already explained keeps its words.
func at(step string, err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "native: " + step, Err: err}
}

// explainStart says at which step a guest did not start. Where AppArmor restricts user namespaces, they are made but hold no capability.
func explainStart(err error) error {
	var e *fork.Error
	switch {
	case !errors.As(err, &e): // it did not come to a child
		return at(failSpawn, err)
	case e.Step == fork.Fork, e.Step == fork.Privileges:
		return explainClone(err)
	}
	return at(e.Step.String(), e.Errno)
}

// explainClone puts the refusal of new namespaces into words.
func explainClone(err error) error {
	e := &sandbox.Error{Kind: sandbox.Unsupported, Op: "native: make namespaces", Err: err}
	switch {
	case errors.Is(err, unix.ENOSPC):
		e.Msg = "this host allows no more user namespaces"
		e.Fix = "raise the sysctl user.max_user_namespaces"
	case errors.Is(err, unix.EPERM) && appArmorRestricts():
		e.Msg = "AppArmor on this host keeps ordinary users from making user namespaces"
		e.Fix = "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give glovebox an AppArmor profile with the permission userns, or run it as root"
	case errors.Is(err, unix.EPERM):
		e.Msg = "this host keeps ordinary users from making user namespaces"
		e.Fix = "as root: sysctl kernel.unprivileged_userns_clone=1 where it exists; inside a container allow it by its seccomp profile (Docker: --security-opt seccomp=unconfined); or run as root"
	case errors.Is(err, unix.ENOSYS):
		e.Msg = "a filter of system calls on this host refuses to make processes in namespaces"
		e.Fix = "inside a container allow clone3 by its seccomp profile (Docker: --security-opt seccomp=unconfined)"
	case errors.Is(err, unix.EINVAL):
		e.Msg = "this kernel lacks one of the namespaces user, mount, pid, net, ipc, uts, cgroup"
		e.Fix = "use a kernel that is built with them"
	default:
		e.Kind = sandbox.Unavailable
	}
	return e
}

// appArmorSwitch is what Ubuntu 23.10 and later keep ordinary users from user namespaces by.
var appArmorSwitch = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"

func appArmorRestricts() bool {
	text, err := os.ReadFile(appArmorSwitch)
	return err == nil && strings.TrimSpace(string(text)) == "1"
}

// explainSetup puts the step at which the set-up stage failed into an error.
func explainSetup(f *confine.Failure) error {
	e := &sandbox.Error{Kind: sandbox.Unavailable, Op: "native: " + f.Step, Err: errors.New(f.Msg)}
	errno := syscall.Errno(f.Errno)
	if errno != 0 {
		e.Err = errno
	}
	denied := errno == unix.EPERM || errno == unix.EACCES
	switch {
	case denied && (f.Step == confine.StepKnobs || strings.HasPrefix(f.Step, confine.StepRoot+" proc")):
		e.Kind = sandbox.Unsupported
		e.Msg = "this host lets nobody mount a fresh /proc, because its own is partly hidden, as in most containers"
		e.Fix = "in Docker or Podman start the container with --security-opt systempaths=unconfined; in Kubernetes set procMount: Unmasked; or use another backend"
	case denied && appArmorRestricts():
		e.Kind = sandbox.Unsupported
		e.Msg = "AppArmor on this host lets an ordinary user's namespaces do nothing"
		e.Fix = "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or run as root"
	case denied && f.Step == confine.StepPrivate:
		e.Kind = sandbox.Unsupported
		e.Fix = "inside a container allow mount by its seccomp and AppArmor profiles (Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
	case errno == unix.ENOSYS:
		e.Kind = sandbox.Unsupported
		e.Msg = "this kernel is too old"
		e.Fix = "use Linux " + leastKernel + " or newer"
	case strings.HasPrefix(f.Step, confine.StepSources+" "):
		e.Kind = sandbox.Invalid
		e.Msg = "cannot be made visible in the sandbox"
	case strings.HasPrefix(f.Step, confine.StepRoot+" ") && (errno == unix.ENOENT || errno == unix.EROFS):
		e.Kind = sandbox.Invalid
		e.Msg = "there is no such place in the sandbox's root, and it cannot be made inside a read-only folder of the host"
		e.Fix = "choose a target below a new top-level folder, such as /data"
	case strings.HasPrefix(f.Step, confine.StepRoot+" ") && errno == unix.ELOOP:
		e.Kind = sandbox.Invalid
		e.Msg = "a link stands in the way of this target"
	}
	return e
}

// leastKernel is the oldest Linux that has all that the set-up stage calls: mount_setattr (5.12) and cgroup.kill (5.14).
const leastKernel = "5.14"
