// Package filelock locks open files and folders against other processes, as flock(2) does. A lock ends with the last
// descriptor of the open file. A child that has not executed its program yet has copies of all descriptors, so Close
// unlocks first.
package filelock

import (
	"errors"
	"os"
)

// Close unlocks and closes a file.
func Close(f *os.File) error { return errors.Join(unlock(f), f.Close()) }

// Held reports whether Try failed because another open file holds the lock.
func Held(err error) bool { return errors.Is(err, errHeld) }

// IsAt reports whether a path still names an open file. The file may have been replaced before the lock was taken.
func IsAt(f *os.File, path string) bool {
	own, err := f.Stat()
	there, statErr := os.Stat(path)
	return err == nil && statErr == nil && os.SameFile(own, there)
}
