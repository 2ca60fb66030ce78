package docker

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// What the engine mounts, in a box's folder, until showMapped mounts a directory or a file in its place.
const (
	emptyFolder = "empty"
	emptyFile   = "empty-file"
)

// shown lists the mounts for the engine. If showMapped can mount them, the engine gets something empty in their place,
// and nothing for a mount inside another: the engine opens paths by itself, and would follow a link that code has made
// since checkDirs.
func (box *Box) shown(spec *sandbox.Spec) (list []sandbox.Mount) {
	all := rootfs.HostMounts(spec)
	if !box.to.mapsOwners() {
		return all
	}
	for _, m := range all {
		if !slices.ContainsFunc(all, func(other sandbox.Mount) bool {
			return strings.HasPrefix(m.Target, other.Target+"/")
		}) {
			list = append(list, sandbox.Mount{Source: filepath.Join(box.Dir, emptyFor(m)), Target: m.Target})
		}
	}
	return list
}

// emptyFor returns what the engine mounts in place of a mount. If its kind changes meanwhile, showMapped fails.
func emptyFor(m sandbox.Mount) string {
	if m.Open == nil {
		if info, err := nolink.Stat(m.Source); err == nil && !info.IsDir() {
			return emptyFile
		}
	}
	return emptyFolder
}

// checkDirs refuses directories that the engine cannot see, or whose owner cannot be mapped to the code's user.
func (to *connection) checkDirs(spec *sandbox.Spec) error {
	list := rootfs.HostMounts(spec)
	if len(list) > 0 && !to.local {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": show " + list[0].Source,
			Msg: "the engine at " + to.host + " does not see this host's files", Fix: "use an engine on this host",
			Fixes: []sandbox.Hint{sandbox.FixSendFile}}
	}
	for i, m := range list {
		op := "mount " + m.Source
		if err := rootfs.CheckTarget(m.Target); err != nil {
			return err
		}
		if m.Open != nil && !to.mapsOwners() {
			return &sandbox.Error{Kind: sandbox.Unsupported, Op: "mount volume " + m.Volume,
				Msg:   "the engine maps user ids, or fumehood is not root",
				Fix:   "run fumehood as root with root's engine",
				Fixes: []sandbox.Hint{sandbox.ChooseBackend("native")}}
		}
		if m.Open != nil {
			continue
		}
		info, err := nolink.Stat(m.Source)
		switch {
		case err != nil:
			return &sandbox.Error{Kind: sandbox.Invalid, Op: op, Err: err}
		case i == 0 && spec.Workspace != "" && !info.IsDir():
			return sandbox.Invalidf(op, "is not a directory")
		}
		if !m.Writable || to.mapsOwners() {
			continue
		}
		owner, known := ownerOf(info)
		if !known || to.rootless || to.remapped || owner != spec.User.UID {
			return &sandbox.Error{Kind: sandbox.Unsupported, Op: op,
				Msg:   fmt.Sprintf("owned by another user; the sandbox's user %d cannot write to it", spec.User.UID),
				Fix:   "run fumehood as root with root's engine, which maps the owner; or mount it read-only",
				Fixes: []sandbox.Hint{sandbox.ChooseBackend("native")}}
		}
	}
	return nil
}
