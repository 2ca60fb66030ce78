package rootfs

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Folder returns the host folder of a root file system: "/" for the host's own. Dir of an image's root is where its
// files are.
func Folder(root sandbox.Root) (string, error) {
	if root.Dir == "" {
		return "/", nil
	}
	dir, err := filepath.EvalSymlinks(root.Dir)
	if err != nil {
		return "", &sandbox.Error{Kind: sandbox.Invalid, Op: "root", Err: err}
	}
	return dir, nil
}

// CheckTarget refuses targets that would cover the sandbox's own files.
func CheckTarget(target string) error {
	clean := path.Clean(target)
	if !path.IsAbs(target) || clean != strings.TrimSuffix(target, "/") || clean == "/" {
		return sandbox.Invalidf("mounts", "target %q must be an absolute path without . and .. parts", target)
	}
	for _, taken := range []string{"/proc", "/dev", "/sys", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		if clean == taken || strings.HasPrefix(clean, taken+"/") && (taken == "/proc" || taken == "/dev" ||
			taken == "/sys") {
			return sandbox.Invalidf("mounts", "target %s belongs to the sandbox itself", target)
		}
	}
	return nil
}

// HostMounts returns a spec's host directories and files: the workspace, the layers, and the mounts.
func HostMounts(spec *sandbox.Spec) []sandbox.Mount {
	var list []sandbox.Mount
	if spec.Workspace != "" {
		list = append(list, sandbox.Mount{Source: spec.Workspace, Target: sandbox.Workspace, Writable: true})
	}
	for _, l := range spec.Layers {
		list = append(list, sandbox.Mount{Source: l.Dir, Target: l.At})
	}
	return append(list, spec.Mounts...)
}
