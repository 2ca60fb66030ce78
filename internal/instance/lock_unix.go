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

func openBirths(run *os.Root) (*os.File, error) { return run.Open(instancesDir) }
