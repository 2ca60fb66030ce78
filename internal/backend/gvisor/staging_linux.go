package gvisor

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/idmap"
	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// staging is a mount namespace that holds all parts of a box, independent of the box's access to the host's folders.
// Nothing is mounted on the host itself, so removing a box's folder can never reach the user's files. It ends with the
// box's processes. An ordinary user has none: that user owns all parts, and runsc uses their paths on the host.
type staging struct {
	plain   bool
	paths   map[string]string // without a namespace: paths of the entries
	entries []entry
	mounts  []specs.Mount // the box's mounts, by path in the staging area
	network string        // runsc's kind of network; "" is none
}

// entry is one thing in the staging area: a clone of a mount, not attached yet.
type entry struct {
	fd   int
	name string // a path in the staging area
	dir  bool
}

// stagingDirs are folders that the staging area may cover: descriptors already hold everything below.
var stagingDirs = []string{"/mnt", "/usr"}

const stagingBytes = 1 << 20 // folders and empty files as mount points

const (
	stagingBox  = "box"
	stagingRoot = "root"
)

func (s *staging) close() {
	for _, p := range s.entries {
		unix.Close(p.fd)
	}
}

// put clones the mount of a path, including all mounts below it.
func (s *staging) put(name, source string, flags confine.Flags) error {
	if s.plain {
		s.paths[name] = source
		return nil
	}
	fd, err := confine.CloneTree(source, flags)
	if err != nil {
		return &os.PathError{Op: "open_tree", Path: source, Err: err}
	}
	return s.take(name, fd)
}

func (s *staging) take(name string, fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	s.entries = append(s.entries, entry{fd: fd, name: name, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR})
	return nil
}

func (s *staging) show(name, target string, writable bool) {
	mode, bind := "ro", "rbind"
	if writable {
		mode = "rw"
	}
	if s.plain {
		bind = "bind" // mounts below are not hardened, so gVisor must fail on them
	}
	s.mounts = append(s.mounts, specs.Mount{Type: "bind", Source: s.path(name), Destination: path.Clean(target),
		Options: []string{bind, "nosuid", "nodev", mode}})
}

// path is where runsc finds an entry.
func (s *staging) path(name string) string {
	if s.plain {
		return s.paths[name]
	}
	return filepath.Join(stagingDir(), name)
}

func stagingDir() string {
	for _, dir := range stagingDirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return stagingDirs[len(stagingDirs)-1]
}

// set stages the parts of a box: its folder, its root with the shown mounts, the guest's socket, and the spec's host
// files. The latter keep their owner on disk; idmap maps it to the box's ids.
func (box *Box) set(spec *sandbox.Spec, r *root) (_ *staging, err error) {
	s := &staging{plain: box.IDs == nil, paths: map[string]string{}, network: kindOf(spec)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := errors.Join(s.put(stagingBox, box.Dir, 0), s.put(stagingRoot, r.dir, 0)); err != nil {
		return nil, err
	}
	for _, m := range r.shows {
		if err := s.bind(m); err != nil {
			return nil, err
		}
	}
	return s, s.add(box, spec, socketDir)
}

// add stages the folder of the guest's socket, and the spec's host files.
func (s *staging) add(box *Box, spec *sandbox.Spec, socketDir string) error {
	socket := s.next()
	if err := s.put(socket, filepath.Join(box.Dir, socketFolder), 0); err != nil {
		return err
	}
	s.show(socket, socketDir, true)
	for _, m := range rootfs.HostMounts(spec) {
		if err := rootfs.CheckTarget(m.Target); err != nil {
			return err
		}
		name := s.next()
		if err := s.putHost(name, m, box.IDs); err != nil {
			return err
		}
		s.show(name, m.Target, m.Writable)
	}
	return nil
}

// bind mounts a host file or folder over the root in the staging area, so that gVisor has one mount: each further one
// costs 1 ms at its start. gVisor opens devices there for the code, so the host's kernel must refuse them.
func (s *staging) bind(m shown) error {
	if !s.plain {
		if err := s.put(path.Join(stagingRoot, m.target), m.source, m.flags); err != nil {
			return err
		}
		return harden(s.entries[len(s.entries)-1].fd, false)
	}
	name := s.next()
	err := s.put(name, m.source, m.flags)
	s.show(name, m.target, false)
	return err
}

// next is the name of the next entry.
func (s *staging) next() string { return strconv.Itoa(len(s.mounts)) }

// putHost stages a host file or folder that a spec names.
func (s *staging) putHost(name string, m sandbox.Mount, ids *hostid.Pair) error {
	if s.plain {
		if _, err := nolink.Stat(m.Source); err != nil {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "mount " + m.Source, Err: err}
		}
		return s.put(name, m.Source, 0)
	}
	fd, err := idmap.Detach(m, ids.Code, ids.Guest)
	if err != nil {
		return err
	}
	if err := s.take(name, fd); err != nil {
		return err
	}
	return harden(fd, m.Writable)
}

// harden disables set-uid programs and devices, and writing if not writable, for a mount and all mounts below it:
// gVisor requests that only for the top.
func harden(fd int, writable bool) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if !writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr))
}

// attach gives the calling thread its own mount namespace and builds the staging area there.
func (s *staging) attach() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("make mounts private", err)
	}
	if err := unix.Mount("staging", stagingDir(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"mode=755,size="+strconv.Itoa(stagingBytes)); err != nil {
		return os.NewSyscallError("mount the staging area", err)
	}
	for _, p := range s.entries {
		at := s.path(p.name)
		var err error
		switch {
		case strings.Contains(p.name, "/"): // the root has a mount point for it
		case p.dir:
			err = os.Mkdir(at, 0o755)
		default:
			err = os.WriteFile(at, nil, 0o644)
		}
		if err == nil {
			err = unix.MoveMount(p.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
		}
		// A clone of a shared mount is shared too, and systemd makes all shared: mounts made here would appear on the
		// host.
		if err == nil {
			err = unix.Mount("", at, "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err != nil {
			return &os.PathError{Op: "attach", Path: at, Err: err}
		}
	}
	return nil
}
