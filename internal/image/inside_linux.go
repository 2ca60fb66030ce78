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
	fd, err := unix.Openat2(int(root.Fd()), path.Clean("./"+name), &unix.OpenHow{Flags: flags,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if folder {
		return f, nil
	}
	return regular(f)
}
