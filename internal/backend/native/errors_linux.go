package native

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func at(step string, err error) error { return hostbox.At(Name, step, err) }

// explainStart explains why a guest did not start. If AppArmor restricts user namespaces, they exist but grant no
// capability.
func explainStart(err error) error {
	var e *fork.Error
	switch {
	case !errors.As(err, &e): // no child process was made
		return at(failSpawn, err)
	case e.Step == fork.Fork, e.Step == fork.Privileges:
		return explainClone(err)
	}
	return at(e.Step.String(), e.Errno)
}

func explainClone(err error) error {
	e := &sandbox.Error{Kind: sandbox.Unsupported, Op: "native: make namespaces", Err: err}
	switch {
	case errors.Is(err, unix.ENOSPC):
		e.Msg = "the host's limit on user namespaces is reached"
		e.Fix = "as root: sysctl user.max_user_namespaces=65536"
	case errors.Is(err, unix.EPERM) && appArmorRestricts():
		e.Msg = "AppArmor on this host forbids ordinary users to make user namespaces"
		e.Fix = "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or add an AppArmor profile for " +
			"fumehood that allows userns, or run as root"
	case errors.Is(err, unix.EPERM):
		e.Msg = "this host forbids ordinary users to make user namespaces"
		e.Fix = "as root: sysctl kernel.unprivileged_userns_clone=1, if it exists; inside a container allow it in " +
			"the seccomp profile (Docker: --security-opt seccomp=unconfined); or run as root"
	case errors.Is(err, unix.ENOSYS):
		e.Msg = "a seccomp filter on this host forbids processes in new namespaces"
		e.Fix = "inside a container allow clone3 in the seccomp profile (Docker: --security-opt seccomp=unconfined)"
	case errors.Is(err, unix.EINVAL):
		e.Msg = "this kernel lacks one of the namespaces user, mount, pid, net, ipc, uts, cgroup"
		e.Fix = "use a kernel built with all of them, or another backend"
	default:
		e.Kind = sandbox.Unavailable
	}
	return e
}

// appArmorSwitch restricts user namespaces of ordinary users on Ubuntu 23.10 and later.
var appArmorSwitch = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"

func appArmorRestricts() bool {
	text, err := os.ReadFile(appArmorSwitch)
	return err == nil && strings.TrimSpace(string(text)) == "1"
}

// explainSetup explains at which step the set-up stage failed.
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
		e.Msg = "the kernel refuses a new /proc because this host's /proc is partly hidden, as in most containers"
		e.Fix = "start the container with --security-opt systempaths=unconfined (Docker, Podman) or procMount: " +
			"Unmasked (Kubernetes); or use another backend"
	case denied && appArmorRestricts():
		e.Kind = sandbox.Unsupported
		e.Msg = "AppArmor on this host denies all rights in an ordinary user's namespaces"
		e.Fix = "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or run as root"
	case denied && f.Step == confine.StepPrivate:
		e.Kind = sandbox.Unsupported
		e.Fix = "inside a container allow mount in the seccomp and AppArmor profiles (Docker: --security-opt " +
			"seccomp=unconfined --security-opt apparmor=unconfined)"
	case errno == unix.ENOSYS:
		e.Kind = sandbox.Unsupported
		e.Msg = "this kernel is too old"
		e.Fix = "use Linux " + leastKernel + " or newer"
	case strings.HasPrefix(f.Step, confine.StepSources+" "):
		e.Kind = sandbox.Invalid
		e.Msg = "the sandbox cannot mount it"
	case strings.HasPrefix(f.Step, confine.StepRoot+" ") && (errno == unix.ENOENT || errno == unix.EROFS):
		e.Kind = sandbox.Invalid
		e.Msg = "the target does not exist, and its host folder is read-only"
		e.Fix = "choose a target below a new top-level folder, such as /data"
	case strings.HasPrefix(f.Step, confine.StepRoot+" ") && errno == unix.ELOOP:
		e.Kind = sandbox.Invalid
		e.Msg = "the target's path contains a symbolic link"
	}
	return e
}

// leastKernel is the oldest Linux with mount_setattr (5.12) and cgroup.kill (5.14).
const leastKernel = "5.14"
