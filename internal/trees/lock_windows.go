package trees

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file until its last handle closes.
func tryLock(f *os.File) error {
	return lockFile(f, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
}

// lockExclusive waits for an exclusive lock.
func lockExclusive(f *os.File) error { return lockFile(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// lockShared waits for a shared lock.
func lockShared(f *os.File) error { return lockFile(f, 0) }

func lockFile(f *os.File, flags uint32) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
}
