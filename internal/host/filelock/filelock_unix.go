//go:build unix

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const errHeld = unix.EWOULDBLOCK

// Try takes an exclusive lock, or fails at once.
func Try(f *os.File) error { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

// Exclusive waits for an exclusive lock.
func Exclusive(f *os.File) error { return flock(f, unix.LOCK_EX) }

// Shared waits for a shared lock.
func Shared(f *os.File) error { return flock(f, unix.LOCK_SH) }

func unlock(f *os.File) error { return flock(f, unix.LOCK_UN) }

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
