package gvisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Paths of a builder's guest and of the folder of its socket. /dev is gVisor's own, so they are no changes, and no link
// of the image leads there.
const (
	builderGuest  = "/dev/.guest"
	builderSocket = "/dev/.fumehood"
)

// setBuilder stages the parts of a builder. Its root is an overlay of the host's kernel, bounded in bytes and inodes:
// the gofer serves it writable, as root of the user namespace with the builder's ids.
func (box *Box) setBuilder(in *instance.Instance, spec *sandbox.Spec) (_ *staging, err error) {
	if !box.Group.IsThere() {
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "writable root",
			Msg: "there are no control groups, by which to wait for the end of all processes",
			Fix: "use the native backend"}
	}
	s := &staging{network: kindOf(spec)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.put(stagingBox, box.Dir, 0); err != nil {
		return nil, err
	}
	fd, err := box.MakeRoot(spec, "dev", "proc", "sys")
	if err == nil {
		err = s.take(stagingRoot, fd)
	}
	if err != nil {
		return nil, err
	}
	guest := s.next()
	if err := s.put(guest, filepath.Join(in.Dir, guestFile), 0); err != nil {
		return nil, err
	}
	s.show(guest, builderGuest, false)
	return s, s.add(box, spec, builderSocket)
}

// builderIDs maps the users of a builder, and the guest's after them.
func builderIDs(p *hostid.Pair) []specs.LinuxIDMapping {
	return []specs.LinuxIDMapping{{ContainerID: 0, HostID: p.Code, Size: hostid.RangeIDs},
		{ContainerID: hostid.RangeIDs, HostID: p.Guest, Size: 1}}
}

// builderPlaces are the steps of a builder's guest. gVisor mounts a /tmp of its own over an empty or missing one: its
// files would be no changes, and its mount point would be one.
func builderPlaces(spec *sandbox.Spec) []confine.Step {
	steps := []confine.Step{{Do: confine.Tmpfs, Target: "dev/shm", Mode: 0o1777, Size: spec.Limits.DiskBytes},
		{Do: confine.Detach, Target: "tmp", Flags: confine.Optional}}
	if _, err := os.Lstat(filepath.Join(spec.Root.Dir, "tmp")); errors.Is(err, fs.ErrNotExist) {
		steps = append(steps, confine.Step{Do: confine.Remove, Target: "tmp"})
	}
	return steps
}
