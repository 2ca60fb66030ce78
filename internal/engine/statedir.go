package engine

import (
	"os"
	"path/filepath"
	"sync"
)

// state is the folder of the logs of runs.
type state struct {
	mu        sync.Mutex // guards all below
	dir       string     // "" until the first use of a temporary folder
	temporary bool
}

// folder returns the folder. Without one in the configuration, it makes a temporary one, which Close removes.
func (s *state) folder() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		return s.dir, nil
	}
	dir, err := os.MkdirTemp("", "fumehood-logs-")
	if err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	s.dir, s.temporary = dir, true
	return dir, nil
}

func (s *state) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.temporary {
		return nil
	}
	s.temporary = false
	return os.RemoveAll(s.dir)
}
