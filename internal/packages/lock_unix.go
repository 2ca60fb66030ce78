//go:build unix

package packages

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked is the error of tryLock if the lock is held.
const errLocked = unix.EWOULDBLOCK

// tryLock locks an open file or folder until its last descriptor closes.
func tryLock(f *os.File) error { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

// lockExclusive waits for an exclusive lock.
func lockExclusive(f *os.File) error { return flock(f, unix.LOCK_EX) }

// lockShared waits for a shared lock.
func lockShared(f *os.File) error { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// notEmpty reports whether a rename failed because its target has entries.
func notEmpty(err error) bool { return errors.Is(err, unix.ENOTEMPTY) }
