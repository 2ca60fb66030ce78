package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/idmap"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// mapsOwners says whether directories of this host can be shown under another owner than they have on disk. No engine's API offers it
// for a container without a user namespace, but root of the same host can do it for one.
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

// showWritable attaches what the code may write to, in the container's own mount namespace and over the read-only mount that the engine
// made there: on disk all stays its owner's, inside the owner is the code's user. No code runs yet, and what is in the namespace ends with
// the container.
func (box *Box) showWritable(spec *sandbox.Spec, pid int) (err error) {
	if !box.to.mapsOwners() {
		return nil
	}
	var entries []entry
	defer func() {
		for _, p := range entries {
			unix.Close(p.fd)
		}
	}()
	for _, m := range hostDirs(spec) {
		if !m.Writable {
			continue
		}
		fd, err := idmap.Detach(m, spec.User.UID, 0)
		if err != nil {
			return err
		}
		entries = append(entries, entry{fd, m.Target})
		// What is mounted on the host later does not come in, nor what is done here to the host.
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
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
	// The number is the engine's word, and may be another process's by now, or on another machine. What the namespace was opened of is
	// looked at after that.
	if err := isGuest(pid); err != nil {
		return err
	}
	onThreadToSpare(func() { err = attach(namespace, entries) })
	return err
}

// isGuest says no to a process that is not the first of a container of ours.
func isGuest(pid int) error {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err == nil && string(line) != guestPath+"\x00" {
		err = fmt.Errorf("process %d, which the engine calls the sandbox's, is another one", pid)
	}
	return err
}

// onThreadToSpare runs f on a thread that ends with it. It is never the process's first, which Go cannot end: /proc/self is what that one
// sees, and would be the container's for good.
func onThreadToSpare(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onThreadToSpare(f) // while this one is held, another has it
			runtime.UnlockOSThread()
			return
		}
		f() // never unlocked
	}()
	<-done
}

// entry is a clone of a mount that is attached nowhere yet, and where it is to be.
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
		// The image may be anybody's: its links are not followed.
		how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
		target, err := unix.Openat2(unix.AT_FDCWD, p.target, how)
		if err != nil {
			return &os.PathError{Op: "openat2", Path: p.target, Err: err}
		}
		err = unix.MoveMount(p.fd, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		if err = errors.Join(err, unix.Close(target)); err != nil {
			return &os.PathError{Op: "move_mount", Path: p.target, Err: err}
		}
	}
	return nil
}
