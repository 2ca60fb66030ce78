package native

import (
	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
)

// deviceSteps are /dev: five stateless devices, the terminal, and links.
func deviceSteps() []confine.Step {
	steps := []confine.Step{{Do: confine.Dir, Target: "dev", Mode: 0o755}}
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		steps = append(steps, confine.Step{Do: confine.Device, Target: "dev/" + d.name, Source: "/dev/" + d.name,
			Size: int64(unix.Mkdev(d.major, d.minor))})
	}
	link := func(name, to string) confine.Step {
		return confine.Step{Do: confine.Symlink, Target: "dev/" + name, Source: to}
	}
	return append(steps,
		link("ptmx", "pts/ptmx"), link("fd", "/proc/self/fd"), link("stdin", "/proc/self/fd/0"),
		link("stdout", "/proc/self/fd/1"), link("stderr", "/proc/self/fd/2"))
}

// kernelSteps are the kernel's views of the sandbox's own namespaces: its terminals and /proc, which is read-only and
// partly masked. The guest makes terminals; the code may only with Spec.Terminals, as kernel threads, which no CPU
// limit counts, process their echo.
func kernelSteps(guestGID uint32, terminals bool, emptyFile, emptyDir string) []confine.Step {
	makers := uint32(0o600)
	if terminals {
		makers = 0o666
	}
	steps := []confine.Step{
		{Do: confine.Devpts, Target: "dev/pts", Mode: makers},
		{Do: confine.Proc, Target: "proc", GID: guestGID},
	}
	for _, name := range rootfs.MaskedFiles {
		steps = append(steps, confine.Step{Do: confine.Mask, Target: "proc/" + name, Source: emptyFile})
	}
	for _, name := range rootfs.MaskedFolders {
		steps = append(steps, confine.Step{Do: confine.Mask, Target: "proc/" + name, Source: emptyDir})
	}
	return steps
}
