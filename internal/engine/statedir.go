package engine

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/filelock"
)

// state is the folder of the logs of runs.
type state struct {
	mu   sync.Mutex // guards all below
	dir  string     // "" until the first use of a temporary folder
	lock *os.File   // of a temporary folder, which shows others that it is in use; nil is none
}

// Of temporary folders.
const (
	temporaryPrefix = "fumehood-logs-"
	temporaryLock   = "lock"
	temporaryAge    = time.Minute // younger ones may have no lock yet
)

// folder returns the folder. Without one in the configuration, it makes a temporary one, which close removes. It then
// also removes those of processes that were killed.
func (s *state) folder() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		return s.dir, nil
	}
	dir, err := os.MkdirTemp("", temporaryPrefix)
	if err != nil {
		return "", err
	}
	if s.lock, err = os.OpenFile(filepath.Join(dir, temporaryLock), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	if err = filelock.Try(s.lock); err == nil {
		s.dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		err = errors.Join(err, s.lock.Close(), os.RemoveAll(dir))
		s.dir, s.lock = "", nil
		return "", err
	}
	removeAbandoned(filepath.Dir(s.dir))
	return s.dir, nil
}

// removeAbandoned removes the temporary folders whose locks nobody holds. A failure leaves them to the next process.
func removeAbandoned(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, temporaryPrefix+"*"))
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < temporaryAge {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil { // of another user
			continue
		}
		if lock, err := root.OpenFile(temporaryLock, os.O_RDWR, 0); err == nil {
			free := filelock.Try(lock) == nil
			_ = lock.Close()
			if free {
				_ = os.RemoveAll(dir)
			}
		}
		_ = root.Close()
	}
}

func (s *state) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	err := errors.Join(filelock.Close(s.lock), os.RemoveAll(s.dir))
	s.lock = nil
	return err
}
