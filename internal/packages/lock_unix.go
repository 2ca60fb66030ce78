//go:build unix

package packages

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked is tryLock's error when somebody else holds the lock.
const errLocked = unix.EWOULDBLOCK

// tryLock locks an open file or folder until its last descriptor closes.
func tryLock(f *os.File) error { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

// lockAlone waits until nobody else holds the lock.
func lockAlone(f *os.File) error { return flock(f, unix.LOCK_EX) }

// shareLock waits until nobody holds the lock alone.
func shareLock(f *os.File) error { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// notEmpty reports whether a folder could not be replaced because it has entries.
func notEmpty(err error) bool { return errors.Is(err, unix.ENOTEMPTY) }
