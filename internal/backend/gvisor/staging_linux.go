package gvisor

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/guest/confine"
	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/internal/idmap"
	"github.com/glovebox-dev/glovebox/internal/nolink"
	"github.com/glovebox-dev/glovebox/internal/rootfs"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// staging is a mount namespace of a box's own in which all that the box consists of lies side by side, whatever the folders of the host
// let the box's user ids see. On the host nothing is mounted, so nobody who removes a box's folder can come to the user's files through
// it. It ends with the box's processes.
//
// For an ordinary user there is none: all that a box consists of is its maker's, and is reached by the paths of the host.
type staging struct {
	plain   bool
	paths   map[string]string // of a plain one: where things lie
	entries []entry
	mounts  []specs.Mount // what the box is to show, as it lies on the staging area
}

// entry is one thing on the staging area: a clone of a mount, attached nowhere yet.
type entry struct {
	fd   int
	name string // a path on the staging area
	dir  bool
}

// stagingDirs are folders that the staging area may cover: all that is below is held by descriptors then.
var stagingDirs = []string{"/mnt", "/usr"}

const stagingBytes = 1 << 20 // of folders and empty files to mount over

// The names of entries that a box always has.
const (
	stagingBox  = "box"
	stagingRoot = "root"
)

func (s *staging) close() {
	for _, p := range s.entries {
		unix.Close(p.fd)
	}
}

// put takes a clone of the mount of a path, with all that is mounted below.
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

// show has the box show a thing on the staging area.
func (s *staging) show(name, target string, writable bool) {
	mode, bind := "ro", "rbind"
	if writable {
		mode = "rw"
	}
	if s.plain {
		bind = "bind" // what is mounted below is not hardened, so gVisor is to fail
	}
	s.mounts = append(s.mounts, specs.Mount{Type: "bind", Source: s.path(name), Destination: path.Clean(target),
		Options: []string{bind, "nosuid", "nodev", mode}})
}

// path is where runsc finds a thing.
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

// set puts all that a box consists of on its staging: its folder, its root, what the root shows, the guest's socket, and what a spec shows
// of the host. Of that, on disk all stays its owner's: to the box's own ids it is mapped (idmap).
func (box *Box) set(spec *sandbox.Spec, r *root) (_ *staging, err error) {
	s := &staging{plain: box.IDs == nil, paths: map[string]string{}}
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
	socket := s.next()
	if err := s.put(socket, filepath.Join(box.Dir, socketFolder), 0); err != nil {
		return nil, err
	}
	s.show(socket, socketDir, true)
	var list []sandbox.Mount
	if spec.Workspace != "" {
		list = append(list, sandbox.Mount{Source: spec.Workspace, Target: sandbox.Workspace, Writable: true})
	}
	for _, l := range spec.Layers {
		list = append(list, sandbox.Mount{Source: l.Dir, Target: l.At})
	}
	for _, m := range append(list, spec.Mounts...) {
		if err := rootfs.CheckTarget(m.Target); err != nil {
			return nil, err
		}
		name := s.next()
		if err := s.putHost(name, m, box.IDs); err != nil {
			return nil, err
		}
		s.show(name, m.Target, m.Writable)
	}
	return s, nil
}

// bind has the box's root show a thing of the host. It is mounted over the root on the staging area, so that for gVisor all of it is one mount:
// each further one takes its start a millisecond. gVisor opens the devices that it finds there for the code, so the host's kernel must not.
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

// next names one thing more.
func (s *staging) next() string { return itoa(len(s.mounts)) }

// putHost puts a file or folder of the host on the staging area that a spec names.
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

// harden has the host's kernel let no set-uid program and no device of a mount be one, nor of what is mounted below, and nothing be written
// that is not to be: gVisor asks for that at the top alone.
func harden(fd int, writable bool) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if !writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr))
}

// attach gives the calling thread a mount namespace of its own, and builds the staging area there.
func (s *staging) attach() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("make mounts private", err)
	}
	if err := unix.Mount("staging", stagingDir(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size="+itoa(stagingBytes)); err != nil {
		return os.NewSyscallError("mount the staging area", err)
	}
	for _, p := range s.entries {
		at := s.path(p.name)
		var err error
		switch {
		case strings.Contains(p.name, "/"): // the root has a place for it
		case p.dir:
			err = os.Mkdir(at, 0o755)
		default:
			err = os.WriteFile(at, nil, 0o644)
		}
		if err == nil {
			err = unix.MoveMount(p.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
		}
		// A clone of a mount that is shared, as systemd makes all of the host's, is so as well: what comes to lie on it here would on the host.
		if err == nil {
			err = unix.Mount("", at, "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err != nil {
			return &os.PathError{Op: "attach", Path: at, Err: err}
		}
	}
	return nil
}
