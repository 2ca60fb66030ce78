//go:build unix

package hostfiles

import (
	"io/fs"
	"os"
	"syscall"
)

// otherWriter returns who besides root and this user may have written a file, and the fix; "" if no one. The user's
// private group, which has the user's number, counts as the user; a primary group of all users (staff, users) does not.
// A user who names a file trusts its owner.
func otherWriter(info fs.FileInfo, named bool) (who, fix string) {
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Perm()&0o002 != 0:
		return "everybody may write to it", "chmod o-w "
	case info.Mode().Perm()&0o020 != 0 && st.Gid != 0 &&
		(int(st.Gid) != os.Getegid() || st.Gid != uint32(os.Geteuid())):
		return "a group that is not this user's own may write to it", "chmod g-w "
	case !named && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return "it belongs to another user", "if you trust it, name it: --config "
	}
	return "", ""
}

// OthersCanRead reports whether a file has the mode with which every user of this machine can read it.
func OthersCanRead(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o004 != 0
}

// isRoots reports whether only root can write to a directory and this user is not root.
func isRoots(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && os.Geteuid() != 0 && info.Sys().(*syscall.Stat_t).Uid == 0 && info.Mode().Perm()&0o022 == 0
}
