//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// writers says who beside root and this user may have written a file, and the fix; "" is nobody. A group that is this user's own counts as
// this user: where users have groups of their own, files are writable by them as a matter of course. Who names a file trusts its owner.
func writers(info fs.FileInfo, named bool) (who, mend string) {
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Perm()&0o002 != 0:
		return "everybody may write to it", "chmod o-w "
	case info.Mode().Perm()&0o020 != 0 && int(st.Gid) != os.Getegid() && st.Gid != 0:
		return "a group that is not this user's own may write to it", "chmod g-w "
	case !named && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return "it belongs to another user", "name it, if it may be believed: --config "
	}
	return "", ""
}
