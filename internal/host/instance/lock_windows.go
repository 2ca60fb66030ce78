package instance

import (
	"os"

	"golang.org/x/sys/windows"
)

// errLocked is tryLock's error when another process holds the lock.
const errLocked = windows.ERROR_LOCK_VIOLATION

// tryLock locks an open file until its last handle closes.
func tryLock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{})
}

// openMaking opens a file beside the folder: a folder itself cannot be locked here.
func openMaking(run *os.Root) (*os.File, error) {
	return run.OpenFile(instancesDir+".lock", os.O_RDWR|os.O_CREATE, 0o600)
}
