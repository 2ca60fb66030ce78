package docker

import (
	"fmt"

	"github.com/glovebox-dev/glovebox/internal/nolink"
	"github.com/glovebox-dev/glovebox/internal/rootfs"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// hostDirs are the directories and files of the host that a spec shows.
func hostDirs(spec *sandbox.Spec) []sandbox.Mount {
	var list []sandbox.Mount
	if spec.Workspace != "" {
		list = append(list, sandbox.Mount{Source: spec.Workspace, Target: sandbox.Workspace, Writable: true})
	}
	for _, l := range spec.Layers {
		list = append(list, sandbox.Mount{Source: l.Dir, Target: l.At})
	}
	return append(list, spec.Mounts...)
}

// shown are the mounts that the engine is told of. One that the code may write to is writable at once where its owner is the code's user;
// else showWritable puts another over it in which the owner is.
func (box *Box) shown(spec *sandbox.Spec) ([]sandbox.Mount, error) {
	list := hostDirs(spec)
	for i, m := range list {
		if m.Writable {
			list[i].Writable = !box.to.mapsOwners()
		}
	}
	return list, nil
}

// checkDirs refuses directories that the engine cannot show, or to whose owner the code's user cannot be mapped.
func (to *connection) checkDirs(spec *sandbox.Spec) error {
	list := hostDirs(spec)
	if len(list) > 0 && !to.local {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": show " + list[0].Source,
			Msg: "the engine at " + to.host + " does not see this host's files", Fix: "send files along with --file, or use an engine on this host"}
	}
	for i, m := range list {
		op := "mount " + m.Source
		if err := rootfs.CheckTarget(m.Target); err != nil {
			return err
		}
		info, err := nolink.Stat(m.Source)
		switch {
		case err != nil:
			return &sandbox.Error{Kind: sandbox.Invalid, Op: op, Err: err}
		case i == 0 && spec.Workspace != "" && !info.IsDir():
			return sandbox.Invalidf(op, "is no folder")
		}
		if !m.Writable || to.mapsOwners() {
			continue
		}
		owner, known := ownerOf(info)
		if !known || to.rootless || to.remapped || owner != spec.User.UID {
			return &sandbox.Error{Kind: sandbox.Unsupported, Op: op,
				Msg: fmt.Sprintf("it belongs to another user of this host than the code would be (%d), so the code could not write to it", spec.User.UID),
				Fix: "run glovebox as root with an engine that is root's, which shows it under another owner; or show it read-only, with --mount; " +
					"or use --backend native"}
		}
	}
	return nil
}
