package image

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// openInside opens a folder or a regular file of a root file system. Links lead nowhere else: dir is their root.
func openInside(dir, name string, folder bool) (*os.File, error) {
	root, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	flags := uint64(unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK)
	if folder {
		flags |= unix.O_DIRECTORY
	}
	f, err := openBelow(root, name, flags, 0)
	if err != nil || folder {
		return f, err
	}
	return regular(f)
}

// maxTries is how often a path is opened while others rename folders or mount.
const maxTries = 64

// openBelow opens a path below a folder, which is its root, with further bits for openat2(2). The kernel gives up at a
// ".." if anything on the host was renamed or mounted meanwhile (EAGAIN): then it tries again.
func openBelow(root *os.File, name string, flags, resolve uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: flags, Resolve: resolve | unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for try := 1; ; try++ {
		fd, err := unix.Openat2(int(root.Fd()), path.Clean("./"+name), &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case err != unix.EAGAIN || try == maxTries:
			return nil, err
		}
	}
}
