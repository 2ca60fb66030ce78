package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxVolumes is the most volumes of a sandbox.
const maxVolumes = 16

// covered are folders of the sandbox itself. No volume may cover them or lie in one of them, and none may cover the
// folders above them.
var covered = []string{sandbox.Workspace, sandbox.WorkspaceAlias, sandbox.Home, "/tmp", "/run", "/var/tmp", "/proc",
	"/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot"}

// checkVolumes checks volumes, and turns those that are directories of the host into mounts. The store checks whether
// the named ones exist.
func (r *Rules) checkVolumes(spec *sandbox.Spec) error {
	if len(spec.Volumes) > 0 && spec.Root.Writable {
		return sandbox.Invalidf("volumes", "a build has none")
	}
	if len(spec.Volumes) > maxVolumes {
		return sandbox.Invalidf("volumes", "%d are over the maximum of %d", len(spec.Volumes), maxVolumes)
	}
	var kept []sandbox.Volume
	var places []string
	for _, m := range spec.Mounts {
		places = append(places, m.Target)
	}
	names := map[string]bool{}
	for i, v := range spec.Volumes {
		field := fmt.Sprintf("volumes[%d]", i)
		if v.HostDir != "" && v.Path == sandbox.Workspace {
			if err := r.checkWorkspace(field, v, spec); err != nil {
				return err
			}
			continue
		}
		if err := checkVolumePath(field+".path", v.Path, places); err != nil {
			return err
		}
		places = append(places, v.Path)
		var err error
		switch {
		case v.Name != "" && v.HostDir == "" && v.Bytes == 0:
			if err = sandbox.CheckVolumeName(v.Name); err == nil && names[v.Name] {
				err = sandbox.Invalidf(field+".name", "%s is mounted twice", v.Name)
			}
			names[v.Name] = true
		case v.Name == "" && v.HostDir != "" && v.Bytes == 0:
			err = r.checkVolumeDir(field+".host_dir", v)
		case v.Name == "" && v.HostDir == "" && v.Bytes != 0:
			if v.Bytes < 0 || v.Bytes > spec.Limits.MemoryBytes {
				err = sandbox.Invalidf(field+".size", "%s is not from 1 byte to the memory limit of %s",
					sandbox.FormatBytes(v.Bytes), sandbox.FormatBytes(spec.Limits.MemoryBytes))
			} else if v.ReadOnly {
				err = sandbox.Invalidf(field, "a volume in memory is empty, and cannot be read-only")
			}
		default:
			err = sandbox.Invalidf(field, "needs either the name of a volume, a size in memory, or a host directory")
		}
		if err != nil {
			return err
		}
		if v.HostDir == "" {
			kept = append(kept, v)
			continue
		}
		spec.Mounts = append(slices.Clone(spec.Mounts),
			sandbox.Mount{Source: v.HostDir, Target: v.Path, Writable: !v.ReadOnly})
	}
	spec.Volumes = kept
	return r.checkMemory(spec)
}

// checkMemory bounds the volumes in memory by the operator's maxima for the writable places. Each may have as many
// files as the other places together.
func (r *Rules) checkMemory(spec *sandbox.Spec) error {
	list, size := spec.MemoryVolumes(), int64(0)
	for _, v := range list {
		size += v.Bytes
	}
	disk, most := spec.Limits.DiskBytes, r.Max.DiskBytes
	if size > 0 && most != 0 && size > most-disk {
		err := sandbox.Invalidf("volumes", "%s in memory, and a disk limit of %s, are over %s",
			sandbox.FormatBytes(size), sandbox.FormatBytes(disk), r.maximum(sandbox.LimitDisk))
		err.Fix = "lower the sizes, or the disk limit"
		return err
	}
	inodes, places := spec.Limits.Inodes, int64(len(list))
	if most := r.Max.Inodes; places > 0 && most != 0 && inodes > most/(1+places) {
		err := sandbox.Invalidf("volumes", "%d in memory, with %d files and folders each, are over %s", places, inodes,
			r.maximum(sandbox.LimitInodes))
		err.Fix = "lower the limit of inodes"
		return err
	}
	return nil
}

// checkVolumePath refuses a path of a volume that covers, or lies in, another part of the sandbox.
func checkVolumePath(field, p string, taken []string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || len(p) > MaxPath || strings.IndexByte(p, 0) >= 0 {
		return sandbox.Invalidf(field, "%.80q is not a clean absolute path below /", p)
	}
	within := func(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
	for _, dir := range covered {
		if within(p, dir) || within(dir, p) {
			err := sandbox.Invalidf(field, "%.80q belongs to the sandbox itself", p)
			err.Fix = "choose a path such as /data"
			return err
		}
	}
	for _, other := range taken {
		if within(p, other) || within(other, p) {
			return sandbox.Invalidf(field, "%.80q and %.80q overlap", p, other)
		}
	}
	return nil
}

// checkWorkspace makes a directory of the host the workspace of a spec.
func (r *Rules) checkWorkspace(field string, v sandbox.Volume, spec *sandbox.Spec) error {
	switch {
	case spec.Workspace != "" || v.Name != "" || v.Bytes != 0:
		return sandbox.Invalidf(field, "the workspace is one directory of the host")
	case v.ReadOnly:
		return sandbox.Invalidf(field, "the workspace cannot be read-only")
	}
	spec.Workspace = v.HostDir
	return r.checkVolumeDir(field+".host_dir", v)
}

// checkVolumeDir checks a directory of the host against those that the operator allows.
func (r *Rules) checkVolumeDir(field string, v sandbox.Volume) error {
	if err := checkHostPath(field, v.HostDir); err != nil {
		return err
	}
	if r.VolumeDir == nil {
		return sandbox.Invalidf(field, "this server does not offer directories of its host")
	}
	return r.VolumeDir(v.HostDir, v.ReadOnly)
}
