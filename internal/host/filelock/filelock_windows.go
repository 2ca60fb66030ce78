package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

const errHeld = windows.ERROR_LOCK_VIOLATION

// Try takes an exclusive lock, or fails at once. Windows locks no folders.
func Try(f *os.File) error {
	return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
}

// Exclusive waits for an exclusive lock.
func Exclusive(f *os.File) error { return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// Shared waits for a shared lock.
func Shared(f *os.File) error { return lock(f, 0) }

// unlock does nothing: no child has a copy of the handle, so closing it unlocks.
func unlock(*os.File) error { return nil }

func lock(f *os.File, flags uint32) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
}
