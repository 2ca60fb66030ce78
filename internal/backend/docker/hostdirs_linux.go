package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/internal/host/idmap"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// mapsOwners reports whether host directories can be mounted under mapped owners. No engine's API offers that for a
// container without a user namespace, but root of the same host can do it for one.
func (to *connection) mapsOwners() bool {
	return to.local && !to.rootless && !to.remapped && os.Geteuid() == 0
}

func ownerOf(info fs.FileInfo) (uint32, bool) {
	st, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return 0, false
	}
	return st.Uid, true
}

// showMapped mounts directories, files and volumes in the container's mount namespace, over the engine's read-only
// mounts. The owner on disk stays; inside, the code's user owns writable ones. No code runs yet, and the mounts end
// with the container.
func (box *Box) showMapped(spec *sandbox.Spec, pid int) (err error) {
	if !box.to.mapsOwners() {
		return nil
	}
	var entries []entry
	defer func() {
		for _, p := range entries {
			unix.Close(p.fd)
		}
	}()
	list := rootfs.HostMounts(spec)
	slices.SortStableFunc(list, func(a, b sandbox.Mount) int { // a mount inside another one comes after it
		return len(a.Target) - len(b.Target)
	})
	for _, m := range list {
		fd, err := idmap.Detach(m, spec.User.UID, 0)
		if err != nil {
			return err
		}
		entries = append(entries, entry{fd, m.Target})
		// Later mounts on the host do not propagate in, nor these mounts to the host.
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
		if !m.Writable {
			attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return os.NewSyscallError("mount_setattr", err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	namespace, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/mnt")
	if err != nil {
		return err
	}
	defer namespace.Close()
	// The engine reported this pid, which may be reused or of another machine. So check after the namespace is open.
	if err := isGuest(pid); err != nil {
		return err
	}
	fork.OnOwnThread(func() { err = attach(namespace, entries) })
	return err
}

// isGuest returns an error for a process that is not the first of one of our containers.
func isGuest(pid int) error {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err == nil && string(line) != guestPath+"\x00" {
		err = fmt.Errorf("process %d, reported by the engine, is not the sandbox's", pid)
	}
	return err
}

// entry is a clone of a mount, not attached yet, and its target.
type entry struct {
	fd     int
	target string
}

func attach(namespace *os.File, entries []entry) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("setns", err)
	}
	for _, p := range entries {
		// Do not follow the image's links: it may be anybody's.
		how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS |
			unix.RESOLVE_NO_MAGICLINKS}
		target, err := unix.Openat2(unix.AT_FDCWD, p.target, how)
		if err != nil {
			return targetError(p.target, err)
		}
		err = unix.MoveMount(p.fd, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		if err = errors.Join(err, unix.Close(target)); err != nil {
			return &os.PathError{Op: "move_mount", Path: p.target, Err: err}
		}
	}
	return nil
}

// targetError explains why a target cannot be opened. The engine has made those that are not inside another mount.
func targetError(target string, err error) error {
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: "mount on " + target, Err: err}
	switch {
	case errors.Is(err, unix.ELOOP):
		e.Msg = "the target's path contains a symbolic link"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		e.Msg = "the target does not exist in the mount around it"
		e.Fix = "choose a target below a new top-level folder, such as /data"
	default:
		return &os.PathError{Op: "openat2", Path: target, Err: err}
	}
	return e
}
