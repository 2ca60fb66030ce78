//go:build unix

package volume

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var errLocked = unix.EWOULDBLOCK

// tryLock locks an open file until its last descriptor closes, or returns errLocked.
func tryLock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
