//go:build unix

package instance

import (
	"os"

	"golang.org/x/sys/unix"
)

// errLocked is tryLock's error when another process holds the lock.
const errLocked = unix.EWOULDBLOCK

// tryLock locks an open file or folder until its last descriptor closes.
func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func openMaking(run *os.Root) (*os.File, error) { return run.Open(instancesDir) }
