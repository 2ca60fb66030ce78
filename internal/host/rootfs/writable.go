package rootfs

import (
	"strings"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// EmptyDir is an empty, read-only folder of the new root. The file system of all writable places is attached at diskDir
// while they are made.
const (
	EmptyDir = "run"
	diskDir  = EmptyDir
)

// WritablePlaces are on one limited file system, so they share the disk limit. Those of one name are one folder.
var WritablePlaces = []struct {
	name, Target string
	mode         uint32
	owned        bool // by the code's user
	flags        confine.Flags
}{
	{"workspace", sandbox.Workspace, 0o755, true, confine.Writable},
	{"workspace", sandbox.WorkspaceAlias, 0o755, true, confine.Writable},
	{"home", sandbox.Home, 0o700, true, confine.Writable},
	{"tmp", "/tmp", 0o1777, false, confine.Writable},
	{"shm", "/dev/shm", 0o1777, false, confine.Writable | confine.NoExec},
}

// Writable returns the steps that make the writable places, without the workspace if a host directory replaces it. With
// noExec nothing in them can be executed.
func Writable(l sandbox.Limits, code sandbox.User, hostWorkspace, noExec bool) []confine.Step {
	steps := []confine.Step{{Do: confine.Tmpfs, Target: diskDir, Mode: 0o755, Size: l.DiskBytes, Inodes: l.Inodes}}
	for _, w := range WritablePlaces {
		if hostWorkspace && w.name == "workspace" {
			continue
		}
		dir := confine.Step{Do: confine.Dir, Target: diskDir + "/" + w.name, Mode: w.mode}
		if w.owned {
			dir.UID, dir.GID = code.UID, code.GID
		}
		inner := confine.Step{Do: confine.Inner, Target: strings.TrimPrefix(w.Target, "/"), Source: dir.Target,
			Flags: w.flags}
		if noExec {
			inner.Flags |= confine.NoExec
		}
		steps = append(steps, dir, inner)
	}
	return append(steps, confine.Step{Do: confine.Detach, Target: diskDir})
}

// Memory returns the step that makes a volume in memory. It may have as many files as the writable places.
func Memory(v sandbox.Volume, l sandbox.Limits, noExec bool) confine.Step {
	s := confine.Step{Do: confine.Tmpfs, Target: strings.TrimPrefix(v.Path, "/"), Mode: 0o1777, Size: v.Bytes,
		Inodes: l.Inodes}
	if noExec {
		s.Flags |= confine.NoExec
	}
	return s
}

// Places returns the steps that make the mount points of the sandbox's own file systems.
func Places() []confine.Step {
	dir := func(target string, mode uint32) confine.Step {
		return confine.Step{Do: confine.Dir, Target: strings.TrimPrefix(target, "/"), Mode: mode}
	}
	steps := []confine.Step{dir("proc", 0o555), dir(EmptyDir, 0o755), dir("dev/pts", 0o755), dir("home", 0o755),
		dir("var", 0o755),
		{Do: confine.Symlink, Target: "var/tmp", Source: "/tmp"}}
	for _, w := range WritablePlaces {
		steps = append(steps, dir(w.Target, 0o755))
	}
	return steps
}
