//go:build unix

package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// lock waits until no other process changes a file of a folder.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // closing frees the lock
}

// likeFile gives a file the owner and the mode of another: a server's user may read it as a group.
func likeFile(f *os.File, old fs.FileInfo) error {
	st := old.Sys().(*syscall.Stat_t)
	if mine, err := f.Stat(); err != nil {
		return err
	} else if own := mine.Sys().(*syscall.Stat_t); own.Uid != st.Uid || own.Gid != st.Gid {
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(old.Mode().Perm())
}
