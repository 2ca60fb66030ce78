// Package store keeps what must outlive the process about living sandboxes: a folder with one file for each record,
// which one process has open.
//
// Writes are rare: a sandbox is made or ends, a context is made. So each record is written to a new file, synced, and
// renamed over the old one, and the folder is synced. A record that was saved survives a kill at any instant, a full
// disk and a power failure (rename(2), fsync(2)), and damage of a file costs one record.
package store

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Bounds of a store.
const (
	EndedFor  = 24 * time.Hour // records of ended sandboxes, for the reason of their end
	EndedMost = 1000
	// MaxRecord is the most bytes of one record's encoding. A server also has the records of its living sandboxes in
	// memory.
	MaxRecord = 1 << 20
)

// Files of a store. It ignores all others.
const (
	lockFile  = "lock"  // the process that has the store open holds its lock (flock(2))
	suffix    = ".json" // of a record, after the id of its sandbox
	newSuffix = ".new"  // of a file that is not complete yet
)

// Store is an open store. Its methods may be called at the same time.
type Store struct {
	path string
	root *os.Root

	open sync.RWMutex // held by each call; Close waits for all
	lock *os.File     // nil once closed

	encoding *room.Room // turns to encode a large record, one for each owner

	mu     sync.Mutex // guards all below; not held while the disk syncs, as each sandbox would wait for all others
	ended  map[sandbox.ID]endedRecord
	claims map[sandbox.ID]*claim
}

// claim is the turn to write one record.
type claim struct {
	sync.Mutex
	users int // those that have it or wait
}

// claim waits for the turn to write a record. The caller calls release.
func (s *Store) claim(id sandbox.ID) (release func()) {
	s.mu.Lock()
	c := s.claims[id]
	if c == nil {
		c = &claim{}
		s.claims[id] = c
	}
	c.users++
	s.mu.Unlock()
	c.Lock()
	return func() {
		c.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.users--; c.users == 0 {
			delete(s.claims, id)
		}
	}
}

// Open opens the store in a folder, named by an absolute path without links, or makes it. The folder is refused, and
// its records stay as they are, with Busy if another process has it open, and with Unavailable if it is not a folder,
// cannot be written to, or has a record of a newer version.
func Open(path string) (*Store, error) {
	if err := prepare(path); err != nil {
		return nil, err
	}
	root, err := nolink.OpenRoot(path)
	if err != nil {
		return nil, failed("open", path, err)
	}
	s := &Store{path: path, root: root, encoding: room.New(math.MaxInt64, 1), ended: map[sandbox.ID]endedRecord{},
		claims: map[sandbox.ID]*claim{}}
	if s.lock, err = root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		root.Close()
		return nil, failed("open", path, err)
	}
	if err = filelock.Try(s.lock); filelock.Held(err) {
		err = &sandbox.Error{Kind: sandbox.Busy, Op: "store: open " + path, Msg: "another process has it open",
			Fix: "stop the other server, or give this one another state folder"}
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		s.Close()
		return nil, failed("open", path, err)
	}
	return s, nil
}

// prepare makes the folder if it is missing, closes it to others, and refuses links.
func prepare(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return sandbox.Invalidf("store", "%q is not a clean absolute path", path)
	}
	info, err := nolink.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parent, err := nolink.OpenRoot(filepath.Dir(path))
		if err == nil {
			err = errors.Join(parent.Mkdir(filepath.Base(path), 0o700), syncFolder(parent), parent.Close())
		}
		return failed("make", path, err)
	case err != nil:
		return failed("open", path, err)
	case !info.IsDir():
		return refuse(path, "it is not a folder")
	case info.Mode().Perm()&0o077 != 0:
		return failed("close to others", path, os.Chmod(path, 0o700))
	}
	return nil
}

// check refuses records of newer versions, and removes incomplete files and old records.
func (s *Store) check() error {
	err := s.each(func(id sandbox.ID, r sandbox.Record, err error) error {
		if newer := new(newerError); errors.As(err, &newer) {
			return newer.refuse(s.path)
		}
		if err == nil && !r.Ended.IsZero() {
			s.ended[id] = endedRecord{r.Ended, r.Owner}
		}
		return nil
	})
	if err != nil {
		return err
	}
	names, err := fs.Glob(s.root.FS(), "*"+newSuffix)
	for _, name := range names {
		err = errors.Join(err, s.root.Remove(name))
	}
	return errors.Join(err, s.prune())
}

// each calls do with each record, or the reason why it cannot be read, until do fails.
func (s *Store) each(do func(sandbox.ID, sandbox.Record, error) error) error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), suffix)
		id, err := sandbox.ParseID(name)
		if !is || err != nil || !entry.Type().IsRegular() {
			continue
		}
		if err := do(s.read(id)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) read(id sandbox.ID) (sandbox.ID, sandbox.Record, error) {
	info, err := s.root.Stat(string(id) + suffix)
	if err == nil && info.Size() > maxFile {
		err = errors.New("its file is too large")
	}
	var b []byte
	if err == nil {
		b, err = s.root.ReadFile(string(id) + suffix)
	}
	if err != nil {
		return id, sandbox.Record{}, damaged(id, err)
	}
	r, err := decode(id, b)
	return id, r, err
}

// endedRecord is the record of an ended sandbox.
type endedRecord struct {
	at    time.Time
	owner string
}

// prune removes the records beyond the bounds: the oldest, and of those that are too many, those of the owner with the
// most.
func (s *Store) prune() error {
	oldest := slices.SortedFunc(maps.Keys(s.ended), func(a, b sandbox.ID) int {
		return s.ended[a].at.Compare(s.ended[b].at)
	})
	for len(oldest) > 0 {
		i := 0
		if time.Since(s.ended[oldest[0]].at) < EndedFor {
			if len(oldest) <= EndedMost {
				break
			}
			i = room.Surplus(len(oldest), func(i int) string { return s.ended[oldest[i]].owner })
		}
		if err := s.remove(oldest[i]); err != nil {
			return err
		}
		oldest = slices.Delete(oldest, i, i+1)
	}
	return nil
}

// Save inserts or replaces a record, and returns its size. It is on the disk when Save returns. A record that could not
// be restored exactly is Invalid.
func (s *Store) Save(r sandbox.Record) (bytes int, err error) {
	b, err := encode(r, func(bytes int) (done func()) { return s.turn(r.Owner, bytes) })
	if err != nil {
		return 0, err
	}
	s.open.RLock()
	defer s.open.RUnlock()
	defer s.claim(r.ID)()
	if err := s.replace(string(r.ID)+suffix, b); err != nil {
		return 0, failed("save", s.path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ended, r.ID)
	if r.Ended.IsZero() {
		return len(b), nil
	}
	s.ended[r.ID] = endedRecord{r.Ended, r.Owner}
	return len(b), failed("save", s.path, s.prune())
}

// largeRecord is the size of a record whose encoding takes more than a millisecond.
const largeRecord = 64 << 10

// turn waits until an owner may encode a record of this size. Large ones are encoded one after another: requests of
// other owners would wait for a CPU behind all that are encoded at once.
func (s *Store) turn(owner string, bytes int) (done func()) {
	if bytes <= largeRecord {
		return func() {}
	}
	s.encoding.Wait(context.Background(), owner, 1, math.MaxInt64)
	return func() { s.encoding.Give(owner, 1) }
}

// replace replaces the content of a file.
func (s *Store) replace(name string, content []byte) error {
	f, err := s.root.OpenFile(name+newSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = s.root.Rename(name+newSuffix, name)
	}
	if err != nil {
		return errors.Join(err, s.root.Remove(name+newSuffix))
	}
	return syncFolder(s.root)
}

// syncFolder waits until the names in a folder are on the disk. Windows has no such call.
func syncFolder(root *os.Root) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Remove removes a record. An unknown id is no error.
func (s *Store) Remove(id sandbox.ID) error {
	if _, err := sandbox.ParseID(string(id)); err != nil {
		return err
	}
	s.open.RLock()
	defer s.open.RUnlock()
	defer s.claim(id)()
	s.mu.Lock()
	err := s.remove(id)
	s.mu.Unlock()
	if err == nil {
		err = syncFolder(s.root)
	}
	return failed("remove", s.path, err)
}

func (s *Store) remove(id sandbox.ID) error {
	err := s.root.Remove(string(id) + suffix)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		delete(s.ended, id)
		return nil
	}
	return err
}

// Damaged is a record that cannot be read. It stays until it is removed or replaced.
type Damaged struct {
	ID  sandbox.ID
	Err error
}

// Load returns all records, the oldest sandbox first, and which ones cannot be read.
func (s *Store) Load() (records []sandbox.Record, damaged []Damaged, err error) {
	s.open.RLock()
	defer s.open.RUnlock()
	err = s.each(func(id sandbox.ID, r sandbox.Record, err error) error {
		if err != nil {
			damaged = append(damaged, Damaged{id, err})
		} else {
			records = append(records, r)
		}
		return nil
	})
	if err != nil {
		return nil, nil, failed("load", s.path, err)
	}
	sortByAge(records)
	return records, damaged, nil
}

// Close gives up the lock. It may be called twice.
func (s *Store) Close() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.lock == nil {
		return nil
	}
	err := errors.Join(filelock.Close(s.lock), s.root.Close())
	s.lock = nil
	return failed("close", s.path, err)
}
