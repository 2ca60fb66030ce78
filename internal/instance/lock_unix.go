//go:build unix

package instance

import (
	"os"

	"golang.org/x/sys/unix"
)

// errLocked is what tryLock says where somebody else has the lock.
const errLocked = unix.EWOULDBLOCK

// tryLock takes the lock of an open file or folder, which ends with its last descriptor.
func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func openBirths(dir string) (*os.File, error) { return os.Open(dir) }

// isPrivate says whether a path is a folder of this user's that is closed to all others.
func isPrivate(path string) (bool, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return false, err
	}
	return int(st.Uid) == os.Geteuid() && st.Mode&0o077 == 0 && st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}
