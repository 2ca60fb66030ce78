//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// writers says who beside root and this user may have written a file, and the fix; "" is nobody. A group that is this user's own counts as
// this user: where each user has a group of the same number, files are writable by it as a matter of course. A group that all users have as
// their first (staff, users) is not one's own. Who names a file trusts its owner.
func writers(info fs.FileInfo, named bool) (who, fix string) {
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Perm()&0o002 != 0:
		return "everybody may write to it", "chmod o-w "
	case info.Mode().Perm()&0o020 != 0 && st.Gid != 0 && (int(st.Gid) != os.Getegid() || st.Gid != uint32(os.Geteuid())):
		return "a group that is not this user's own may write to it", "chmod g-w "
	case !named && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return "it belongs to another user", "name it, if it may be believed: --config "
	}
	return "", ""
}

// isRoots says whether only root can make anything in a directory, and this user is not root, as whom code can write anywhere.
func isRoots(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && os.Geteuid() != 0 && info.Sys().(*syscall.Stat_t).Uid == 0 && info.Mode().Perm()&0o022 == 0
}
