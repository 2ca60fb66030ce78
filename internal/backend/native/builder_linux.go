package native

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/overlay"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Changed = (*Box)(nil)

// Parts of a builder's /dev, which is in memory: what covers hidden parts of /proc.
const (
	builderEmptyFile = "dev/.empty"
	builderEmptyDir  = "dev/.none"
)

// refuseBuilder returns an error for a builder that this backend does not support.
func (b *Backend) refuseBuilder(spec *sandbox.Spec) error {
	switch {
	case !spec.Root.Writable:
		return nil
	case b.user.UID != 0:
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "native: writable root",
			Msg: "only root can map the ids of its users", Fix: "run as root"}
	case !b.kernel.atLeast(5, 19):
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "native: writable root",
			Msg: "this kernel is " + b.kernel.release, Fix: "use Linux 5.19 or newer"}
	case spec.Root.Dir == "" || spec.Lifetime.Living || spec.HostWritable() || spec.Commands != nil:
		return sandbox.Invalidf("root", "a writable one is for one-shot sandboxes with a root directory, without "+
			"writable host directories and without a list of commands")
	}
	return nil
}

// buildIn makes the writable root of a builder, and plans it: the kernel's own file systems are added, nothing else.
func (p *planned) buildIn(b *Backend, spec *sandbox.Spec, m ids, box *Box) error {
	o := overlay.Options{Lower: spec.Root.Dir, Place: filepath.Join(box.Dir, "root"), First: box.IDs.Code,
		IDs: hostid.RangeIDs, Limits: spec.Limits, Files: map[string]string{}, Folders: []string{"dev", "proc"}}
	for name, content := range rootfs.BuilderFiles {
		o.Files[name] = content
	}
	for _, mount := range rootfs.HostMounts(spec) {
		o.Files[strings.TrimPrefix(mount.Target, "/")] = ""
	}
	err := os.Mkdir(o.Place, 0o700)
	if err == nil {
		box.root, err = overlay.New(o)
	}
	if err != nil {
		return b.At("make the writable root", err)
	}
	p.Builder, p.mounts = true, append(p.mounts, box.root.Detach())
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

// Changes ends the sandbox's processes, and writes what they have changed in its root.
func (box *Box) Changes(ctx context.Context, w io.Writer) error {
	if box.root == nil {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "native: changes", Msg: "the root is not writable"}
	}
	box.Process.Kill()
	if _, err := box.Wait(ctx); err != nil {
		return err
	}
	return box.root.Changes(ctx, w)
}
