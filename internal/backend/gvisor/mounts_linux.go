package gvisor

import (
	"os"
	"path"
	"path/filepath"
	"runtime"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/fork"
	"github.com/glovebox-dev/glovebox/internal/idmap"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
	"github.com/glovebox-dev/glovebox/internal/rootfs"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// mountsFolder is where the directories of the host that a box shows are attached, in the box's own mount namespace alone: on the host
// the folder is empty, so nobody who removes it can come to the user's files.
const mountsFolder = "mounts"

// shown are the directories of the host that a box shows, attached nowhere yet.
type shown struct {
	fds    []int
	mounts []specs.Mount
}

func (s *shown) close() {
	for _, fd := range s.fds {
		unix.Close(fd)
	}
}

// show opens what a spec shows of the host. On disk all stays its owner's: to the code, who is the host's user of the same number to the
// process that serves files, it is mapped (idmap).
func (box *Box) show(spec *sandbox.Spec) (_ *shown, err error) {
	s := &shown{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var list []sandbox.Mount
	if spec.Workdir != "" {
		list = append(list, sandbox.Mount{Source: spec.Workdir, Target: sandbox.Workspace, Writable: true})
	}
	for _, l := range spec.Layers {
		list = append(list, sandbox.Mount{Source: l.Dir, Target: l.At})
	}
	for n, m := range append(list, spec.Mounts...) {
		if err := rootfs.CheckTarget(m.Target); err != nil {
			return nil, err
		}
		fd, err := idmap.Detach(m, spec.User.UID, true)
		if err != nil {
			return nil, err
		}
		s.fds = append(s.fds, fd)
		mode := "ro"
		if m.Writable {
			mode = "rw"
		}
		at := filepath.Join(box.dir, mountsFolder, itoa(n))
		if err := mountPoint(m.Source, at); err != nil {
			return nil, err
		}
		s.mounts = append(s.mounts, bind(at, path.Clean(m.Target), mode))
	}
	return s, nil
}

// start starts runsc where the mounts are attached: in a mount namespace that nothing else is in, and that ends with the box.
func (s *shown) start(order *fork.Order) (process *pidfd.Process, err error) {
	if len(s.fds) == 0 {
		return start(order)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err = s.attach(); err == nil {
			process, err = start(order)
		}
	}()
	<-done
	return process, err
}

// attach gives the calling thread a mount namespace of its own, and attaches the mounts there.
func (s *shown) attach() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	for n, fd := range s.fds {
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, s.mounts[n].Source, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return os.NewSyscallError("move_mount", err)
		}
	}
	return nil
}

func start(order *fork.Order) (*pidfd.Process, error) {
	pid, fd, err := order.Start()
	if err != nil {
		return nil, err
	}
	return &pidfd.Process{PID: pid, FD: fd, Child: true}, nil
}
