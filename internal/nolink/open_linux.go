package nolink

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func open(path string, flag int, perm os.FileMode) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flag | unix.O_CLOEXEC | unix.O_NONBLOCK), Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if flag&os.O_CREATE != 0 {
		how.Mode = uint64(perm.Perm()) // openat2(2): else it must be 0
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	for err == unix.EINTR || err == unix.EAGAIN { // EAGAIN: something on the way was renamed just then
		fd, err = unix.Openat2(unix.AT_FDCWD, path, &how)
	}
	switch err {
	case nil:
		return os.NewFile(uintptr(fd), path), nil
	case unix.ENOSYS, unix.EPERM: // an old kernel, or a filter of system calls around us that does not know the call
		return openLooking(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, perm)
	case unix.ELOOP:
		if link := refuse(path); link != nil {
			return nil, link
		}
	}
	return nil, &os.PathError{Op: "open", Path: path, Err: err}
}

// OpenPath opens a path as a place only (O_PATH), of whatever kind it is: what can be mounted or looked at, but not read.
func OpenPath(path string) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err = unix.Openat2(unix.AT_FDCWD, path, &how)
	if errors.Is(err, unix.ELOOP) {
		if link := refuse(path); link != nil {
			return -1, link
		}
	}
	return fd, os.NewSyscallError("openat2", err)
}
