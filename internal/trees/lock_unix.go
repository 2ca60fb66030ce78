//go:build unix

package trees

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks an open file until its last descriptor closes, or fails at once.
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
