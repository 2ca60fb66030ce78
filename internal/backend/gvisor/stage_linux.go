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

// stage is a mount namespace of a box's own in which all that the box consists of lies side by side, whatever the folders of the host
// let the box's user ids see. On the host nothing is mounted, so nobody who removes a box's folder can come to the user's files through
// it. It ends with the box's processes.
//
// For an ordinary user there is none: all that a box consists of is its maker's, and is reached by the paths of the host.
type stage struct {
	plain  bool
	paths  map[string]string // of a plain one: where things lie
	props  []prop
	mounts []specs.Mount // what the box is to show, as it lies on the stage
}

// prop is one thing on the stage: a clone of a mount, attached nowhere yet.
type prop struct {
	fd   int
	name string // a path on the stage
	dir  bool
}

// stageDirs are folders that the stage may cover: all that is below is held by descriptors then.
var stageDirs = []string{"/mnt", "/usr"}

const stageBytes = 1 << 20 // of folders and empty files to mount over

// The names of props that a box always has.
const (
	stageBox  = "box"
	stageRoot = "root"
)

func (s *stage) close() {
	for _, p := range s.props {
		unix.Close(p.fd)
	}
}

// put takes a clone of the mount of a path, with all that is mounted below.
func (s *stage) put(name, source string, flags confine.Flags) error {
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

func (s *stage) take(name string, fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	s.props = append(s.props, prop{fd: fd, name: name, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR})
	return nil
}

// show has the box show a thing on the stage.
func (s *stage) show(name, target string, writable bool) {
	mode, bind := "ro", "rbind"
	if writable {
		mode = "rw"
	}
	if s.plain {
		bind = "bind" // what is mounted below is not tamed, so gVisor is to fail
	}
	s.mounts = append(s.mounts, specs.Mount{Type: "bind", Source: s.path(name), Destination: path.Clean(target),
		Options: []string{bind, "nosuid", "nodev", mode}})
}

// path is where runsc finds a thing.
func (s *stage) path(name string) string {
	if s.plain {
		return s.paths[name]
	}
	return filepath.Join(stageDir(), name)
}

func stageDir() string {
	for _, dir := range stageDirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return stageDirs[len(stageDirs)-1]
}

// set puts all that a box consists of on its stage: its folder, its root, what the root shows, the guest's socket, and what a spec shows
// of the host. Of that, on disk all stays its owner's: to the box's own ids it is mapped (idmap).
func (box *Box) set(spec *sandbox.Spec, r *root) (_ *stage, err error) {
	s := &stage{plain: box.IDs == nil, paths: map[string]string{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := errors.Join(s.put(stageBox, box.Dir, 0), s.put(stageRoot, r.dir, 0)); err != nil {
		return nil, err
	}
	for _, m := range r.shows {
		if err := s.dress(m); err != nil {
			return nil, err
		}
	}
	socket := s.next()
	if err := s.put(socket, filepath.Join(box.Dir, socketFolder), 0); err != nil {
		return nil, err
	}
	s.show(socket, socketDir, true)
	var list []sandbox.Mount
	if spec.Workdir != "" {
		list = append(list, sandbox.Mount{Source: spec.Workdir, Target: sandbox.Workspace, Writable: true})
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

// dress has the box's root show a thing of the host. It is mounted over the root on the stage, so that for gVisor all of it is one mount:
// each further one takes its start a millisecond. gVisor opens the devices that it finds there for the code, so the host's kernel must not.
func (s *stage) dress(m shown) error {
	if !s.plain {
		if err := s.put(path.Join(stageRoot, m.target), m.source, m.flags); err != nil {
			return err
		}
		return tame(s.props[len(s.props)-1].fd, false)
	}
	name := s.next()
	err := s.put(name, m.source, m.flags)
	s.show(name, m.target, false)
	return err
}

// next names one thing more.
func (s *stage) next() string { return itoa(len(s.mounts)) }

// putHost puts a file or folder of the host on the stage that a spec names.
func (s *stage) putHost(name string, m sandbox.Mount, ids *hostid.Pair) error {
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
	return tame(fd, m.Writable)
}

// tame has the host's kernel let no set-uid program and no device of a mount be one, nor of what is mounted below, and nothing be written
// that is not to be: gVisor asks for that at the top alone.
func tame(fd int, writable bool) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if !writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr))
}

// attach gives the calling thread a mount namespace of its own, and builds the stage there.
func (s *stage) attach() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("make mounts private", err)
	}
	if err := unix.Mount("stage", stageDir(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size="+itoa(stageBytes)); err != nil {
		return os.NewSyscallError("mount the stage", err)
	}
	for _, p := range s.props {
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
