package native

import (
	"slices"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Parts of a builder's /dev, which is in memory: what covers hidden parts of /proc.
const (
	builderEmptyFile = "dev/.empty"
	builderEmptyDir  = "dev/.none"
)

// buildIn makes the writable root of a builder, and plans it: the kernel's own file systems are added, nothing else.
func (p *planned) buildIn(spec *sandbox.Spec, m ids, box *Box) error {
	fd, err := box.MakeRoot(spec, "dev", "proc")
	if err != nil {
		return err
	}
	p.Builder, p.mounts = true, append(p.mounts, fd)
	p.Root = slices.Concat([]confine.Step{{Do: confine.Tmpfs, Target: "dev", Mode: 0o755, Size: 1 << 20, Inodes: 64}},
		deviceSteps(), []confine.Step{
			{Do: confine.File, Target: builderEmptyFile, Mode: 0o444},
			{Do: confine.Dir, Target: builderEmptyDir, Mode: 0o555},
			{Do: confine.Dir, Target: "dev/pts", Mode: 0o755},
			{Do: confine.Dir, Target: "dev/shm", Mode: 0o755},
			{Do: confine.Tmpfs, Target: "dev/shm", Mode: 0o1777, Size: spec.Limits.DiskBytes,
				Inodes: spec.Limits.Inodes},
		}, kernelSteps(m.guest.GID, spec.Terminals, builderEmptyFile, builderEmptyDir))
	return nil
}
