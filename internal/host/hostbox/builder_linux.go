package hostbox

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/overlay"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Changed = (*Box)(nil)

// RefuseBuilder returns an error for a builder, a box with a writable root, that this host or every backend does not
// support.
func (b *Base) RefuseBuilder(spec *sandbox.Spec) error {
	if !spec.Root.Writable {
		return nil
	}
	if err := overlay.Available(); err != nil {
		return err
	}
	if spec.Root.Dir == "" || spec.Lifetime.Living || spec.HostWritable() || spec.Commands != nil {
		return sandbox.Invalidf("root", "a writable one is for one-shot sandboxes with a root directory, without "+
			"writable host directories and without a list of commands")
	}
	return nil
}

// MakeRoot makes the writable root of a builder, and returns the descriptor of its mount. Folders are those in which
// the backend mounts what is no change.
func (box *Box) MakeRoot(spec *sandbox.Spec, folders ...string) (int, error) {
	o := overlay.Options{Lower: spec.Root.Dir, Place: filepath.Join(box.Dir, "root"), First: box.IDs.Code,
		IDs: hostid.RangeIDs, Limits: spec.Limits, Files: map[string]string{}, Folders: folders}
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
		return -1, At(box.Backend, "make the writable root", err)
	}
	return box.root.Detach(), nil
}

// ShowBuilder corrects the walls of a builder's policy, which has a writable root and root inside.
func ShowBuilder(p *sandbox.Policy, spec *sandbox.Spec) {
	if !spec.Root.Writable {
		return
	}
	for i := range p.Walls {
		switch w := &p.Walls[i]; w.Name {
		case "root":
			w.Detail = "writable: changes are in memory, bounded in bytes and entries, nosuid and nodev"
		case "capabilities":
			w.Detail = "CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID and SETUID inside, with no_new_privs"
		}
	}
}

// CloseRoot drops the writable root of a box that has no process. Close includes it.
func (box *Box) CloseRoot() error { return box.root.Close() }

// groupPoll is how often to look whether the last process of a control group has ended.
const groupPoll = 2 * time.Millisecond

// Changes ends the sandbox's processes, and writes what they have changed in its root. It waits for the end of all
// processes of the control group: none may write while the changes are read.
func (box *Box) Changes(ctx context.Context, w io.Writer) error {
	if box.root == nil {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: box.Backend + ": changes", Msg: "the root is not writable"}
	}
	box.Process.Kill()
	if _, err := box.Wait(ctx); err != nil {
		return err
	}
	for len(box.Group.Processes()) > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(groupPoll):
		}
	}
	return box.root.Changes(ctx, w)
}
