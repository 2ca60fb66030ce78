package trees

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Folders and files of a store.
const (
	treesDir   = "trees"
	workDir    = "work"
	filesDir   = "files"       // of one tree: its content
	recordFile = "record.json" // of one tree
	usedFile   = "used"        // of one tree: its lock; it has a byte for each use, the last at its modification time
	workLock   = "work.lock"
)

var digestPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{64}$`)
})

// IsDigest reports whether a text can be the digest of a tree: a SHA-256 in lower-case hexadecimal digits.
func IsDigest(text string) bool { return digestPattern().MatchString(text) }

// Store is a folder of trees. Its methods are safe for concurrent use.
type Store struct {
	dir string // without symbolic links
}

// Open opens or creates a store, and removes the drafts of processes that have ended. It refuses a folder that another
// user could change.
func Open(dir string) (*Store, error) {
	s := &Store{}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = rundir.Judge(dir, "") // also the symbolic links in the path
	}
	if err == nil {
		s.dir, err = filepath.EvalSymlinks(dir)
	}
	for _, name := range []string{treesDir, workDir} {
		if err == nil {
			err = os.MkdirAll(s.path(name), 0o755)
		}
	}
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "open " + dir, Err: err,
			Fix: "make the folder writable"}
	}
	s.sweep()
	return s, nil
}

// sweep removes drafts that no process has locked, and what others remove: without the lock, as it may take a while.
func (s *Store) sweep() {
	for _, dir := range s.abandoned() {
		_ = RemoveAll(dir) // the next sweep tries again
	}
}

// abandoned returns the folders that no process has locked. None of them becomes a tree.
func (s *Store) abandoned() (list []string) {
	done, err := s.lockWork()
	if err != nil {
		return nil // the next process tries again
	}
	defer done()
	entries, _ := os.ReadDir(s.path(workDir))
	for _, e := range entries {
		dir := s.path(workDir, e.Name())
		lock, err := os.Open(filepath.Join(dir, usedFile))
		if err != nil || filelock.Try(lock) == nil {
			list = append(list, dir)
		}
		lock.Close() // also if nil
	}
	return list
}

func (s *Store) path(names ...string) string {
	return filepath.Join(append([]string{s.dir}, names...)...)
}

// Lock waits for an exclusive lock of a file in the folder of the store, which it makes if it is missing.
func (s *Store) Lock(name string) (done func(), err error) { return filelock.At(s.path(name)) }

// lockWork locks the work folder: no other process begins or sweeps a draft until done.
func (s *Store) lockWork() (done func(), err error) { return s.Lock(workLock) }

// Files returns the folder with the content of a tree.
func (s *Store) Files(digest string) string { return s.path(treesDir, digest, filesDir) }

// Has reports whether the store has a tree.
func (s *Store) Has(digest string) bool {
	_, err := os.Stat(s.path(treesDir, digest, recordFile))
	return err == nil
}

// Whole reports whether the store has a tree with a record that can be decoded. Publish replaces another one.
func (s *Store) Whole(digest string) bool {
	var record json.RawMessage
	_, _, err := s.Record(digest, &record)
	return err == nil
}

// Hold keeps a tree until release, and counts a use. Without the tree it returns fs.ErrNotExist.
func (s *Store) Hold(digest string) (release func(), err error) { return s.hold(digest, true) }

// Keep is Hold, and counts no use.
func (s *Store) Keep(digest string) (release func(), err error) { return s.hold(digest, false) }

// HoldOpen is Hold, with the open file of its lock: a process that inherits the file holds the tree too.
func (s *Store) HoldOpen(digest string) (lock *os.File, err error) {
	release, err := s.Hold(digest)
	if err != nil {
		return nil, err
	}
	defer release()
	if lock, err = os.Open(s.path(treesDir, digest, usedFile)); err != nil {
		return nil, err
	}
	if err = filelock.Shared(lock); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func (s *Store) hold(digest string, use bool) (release func(), err error) {
	path := s.path(treesDir, digest, usedFile)
	used, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		used, err = os.Open(path) // a read-only store still works
	}
	if err != nil {
		return nil, err
	}
	if err = filelock.Shared(used); err == nil && !filelock.IsAt(used, path) {
		err = fs.ErrNotExist // it was removed while this process waited
	}
	if err != nil {
		return nil, errors.Join(err, used.Close())
	}
	if use {
		_, _ = used.Write([]byte{'\n'}) // on a full disk, a use is not counted
	}
	return func() { _ = filelock.Close(used) }, nil
}

// maxRecord is the size of a record, in bytes. That of a layer lists at most some thousand packages.
const maxRecord = 16 << 20

// Record decodes the record of a tree, and returns the time of its last use and the number of uses. A record above
// 16 MiB is an error. A damaged one is fs.ErrNotExist: the tree counts as missing.
func (s *Store) Record(digest string, into any) (used time.Time, uses int64, err error) {
	f, err := os.Open(s.path(treesDir, digest, recordFile))
	if err != nil {
		return used, 0, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && len(text) > maxRecord {
		err = fmt.Errorf("%s is larger than 16 MiB", f.Name())
	}
	if err == nil && json.Unmarshal(text, into) != nil {
		err = fmt.Errorf("%s is damaged: %w", f.Name(), fs.ErrNotExist)
	}
	if err != nil {
		return used, 0, err
	}
	info, err := os.Stat(s.path(treesDir, digest, usedFile))
	if err != nil {
		return used, 0, err
	}
	return info.ModTime(), info.Size(), nil
}

// Stat describes the file of a tree's record, and returns the time of the tree's last use.
func (s *Store) Stat(digest string) (record fs.FileInfo, used time.Time, err error) {
	record, err = os.Stat(s.path(treesDir, digest, recordFile))
	if err != nil {
		return nil, used, err
	}
	info, err := os.Stat(s.path(treesDir, digest, usedFile))
	if err != nil {
		return nil, used, err
	}
	return record, info.ModTime(), nil
}

// ByUse lists the trees, the most recently used first.
func (s *Store) ByUse() ([]string, error) {
	list, err := s.Digests()
	used := map[string]time.Time{}
	for _, digest := range list {
		if info, err := os.Stat(s.path(treesDir, digest, usedFile)); err == nil { // it may be removed meanwhile
			used[digest] = info.ModTime()
		}
	}
	slices.SortFunc(list, func(a, b string) int { return used[b].Compare(used[a]) })
	return list, err
}

// Digests lists the trees.
func (s *Store) Digests() ([]string, error) {
	entries, err := os.ReadDir(s.path(treesDir))
	var list []string
	for _, e := range entries {
		if IsDigest(e.Name()) {
			list = append(list, e.Name())
		}
	}
	return slices.Clip(list), err
}

// Remove removes a tree. It returns false if a process holds it, or if it is gone.
func (s *Store) Remove(digest string) (gone bool, err error) {
	taken, err := s.Take(digest)
	if taken == "" {
		return false, err
	}
	return true, RemoveAll(taken)
}

// Take takes a tree out of the store, and returns its folder, which the caller removes by RemoveAll: that of a large
// tree takes a while. It returns "" if a process holds the tree, or if it is gone.
func (s *Store) Take(digest string) (taken string, err error) {
	path := s.path(treesDir, digest, usedFile)
	used, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o644) // a damaged tree may lack it
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer used.Close()
	// Others may have removed the tree of this file, and made the tree again.
	if filelock.Try(used) != nil || !filelock.IsAt(used, path) {
		return "", nil
	}
	taken = s.path(workDir, fmt.Sprintf("removed-%s-%x", digest, rand.Uint64()))
	if err := os.Rename(s.path(treesDir, digest), taken); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return taken, nil
}
