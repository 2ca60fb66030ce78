//go:build linux

package cgroup

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// keptFiles keeps the files of one folder's counters open, so that a reading is one system call and not four. The
// descriptors stay valid when the folder is renamed. Nil keeps none.
type keptFiles struct {
	mu   sync.Mutex // guards fds, also while one of them is read, and text
	fds  map[string]int
	text [maxKept]byte
}

// maxKept is the size of the longest file that is read through a kept descriptor, in bytes.
const maxKept = 512

// read returns the content of a file of the branch. It opens the file unless its descriptor is kept.
func (b branch) read(file string) ([]byte, error) {
	if b.kept == nil {
		return readFile(b.Dir, file)
	}
	b.kept.mu.Lock()
	defer b.kept.mu.Unlock()
	fd, open := b.kept.fds[file]
	if !open {
		var err error
		if fd, err = openFile(filepath.Join(b.Dir, file), unix.O_RDONLY); err != nil {
			return nil, err
		}
		if b.kept.fds == nil {
			b.kept.fds = map[string]int{}
		}
		b.kept.fds[file] = fd
	}
	text := b.kept.text[:]
	n, err := retry(func() (int, error) { return unix.Pread(fd, text, 0) })
	switch {
	case err != nil:
		return nil, &os.PathError{Op: "read", Path: filepath.Join(b.Dir, file), Err: err}
	case n == maxKept:
		return readFile(b.Dir, file)
	}
	return bytes.Clone(text[:n]), nil
}

// close closes the descriptors. A later read opens the file again.
func (k *keptFiles) close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for fd := range maps.Values(k.fds) {
		unix.Close(fd)
	}
	k.fds = nil
}

// KeepFiles keeps the files of the counters open from their first reading on, until CloseFiles or Remove. Groups made
// by Create do so from the start.
func (g *Group) KeepFiles() {
	for n := range g.branches {
		if g.branches[n].kept == nil {
			g.branches[n].kept = &keptFiles{}
		}
	}
}

// CloseFiles closes what KeepFiles keeps.
func (g *Group) CloseFiles() {
	for _, b := range g.branches {
		b.kept.close()
	}
}
