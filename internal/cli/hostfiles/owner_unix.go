//go:build unix

package hostfiles

import (
	"io/fs"
	"os"
	"syscall"
)

// likeFile gives a file the owner and the mode of another.
func likeFile(f *os.File, old fs.FileInfo) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	st, own := old.Sys().(*syscall.Stat_t), mine.Sys().(*syscall.Stat_t)
	if own.Uid != st.Uid || own.Gid != st.Gid {
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(old.Mode().Perm())
}
