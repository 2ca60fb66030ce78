// Package filelock locks open files and folders against other processes, as flock(2) does. A lock ends with the last
// descriptor of the open file. A child that has not executed its program yet has copies of all descriptors, so Close
// unlocks first.
package filelock

import (
	"context"
	"errors"
	"os"
	"time"
)

// Close unlocks and closes a file.
func Close(f *os.File) error { return errors.Join(unlock(f), f.Close()) }

// At opens a file, which it makes if it is missing, and waits for an exclusive lock.
func At(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Exclusive(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = Close(f) }, nil
}

const waitPause = 2 * time.Millisecond // between the attempts of Wait

// Wait waits for an exclusive lock. If ctx ends first, it returns the cause.
func Wait(ctx context.Context, f *os.File) error {
	for {
		err := Try(f)
		if err == nil || !Held(err) {
			return err
		}
		select {
		case <-time.After(waitPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Held reports whether Try failed because another open file holds the lock.
func Held(err error) bool { return errors.Is(err, errHeld) }

// IsAt reports whether a path still names an open file. The file may have been replaced before the lock was taken.
func IsAt(f *os.File, path string) bool {
	own, err := f.Stat()
	there, statErr := os.Stat(path)
	return err == nil && statErr == nil && os.SameFile(own, there)
}
