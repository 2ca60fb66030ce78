package nolink

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func open(path string, flag int, perm os.FileMode) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flag | unix.O_CLOEXEC | unix.O_NONBLOCK),
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if flag&os.O_CREATE != 0 {
		how.Mode = uint64(perm.Perm()) // openat2(2): else it must be 0
	}
	// EAGAIN: another process holds a lease on the file and is asked to release it (fcntl(2))
	fd, err := openat2(path, &how)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), path), nil
	case tooOld(err): // an old kernel, or a seccomp filter around us that does not know the call
		return openLooking(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, perm)
	case errors.Is(err, unix.ELOOP):
		if link := refuse(path); link != nil {
			return nil, link
		}
	}
	return nil, &os.PathError{Op: "open", Path: path, Err: err}
}

func tooOld(err error) bool { return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) }

func openat2(path string, how *unix.OpenHow) (fd int, err error) {
	for {
		if fd, err = unix.Openat2(unix.AT_FDCWD, path, how); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// OpenPath opens a path of any kind as a reference only (O_PATH): it can be mounted or examined, but not read.
func OpenPath(path string) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err = openat2(path, &how)
	switch {
	case tooOld(err):
		f, err := openLooking(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			return -1, err
		}
		defer f.Close()
		return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	case errors.Is(err, unix.ELOOP):
		if link := refuse(path); link != nil {
			return -1, link
		}
	}
	return fd, os.NewSyscallError("openat2", err)
}
