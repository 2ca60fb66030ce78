package trees

import (
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"
)

// Facts keeps the facts that a caller needs of each tree's record, since records may be long. The zero value is empty.
// Its methods are safe for concurrent use.
type Facts[T any] struct {
	mu    sync.Mutex
	known map[string]fact[T] // by digest
}

type fact[T any] struct {
	record fs.FileInfo
	value  T
}

// Of returns the fact of a tree and the time of the tree's last use. It calls read, which decodes the record, only if
// the file of the record has changed since. Errors are those of Store.Record.
func (f *Facts[T]) Of(s *Store, digest string, read func() (T, error)) (value T, used time.Time, err error) {
	record, used, err := s.Stat(digest)
	if err != nil {
		return value, used, err
	}
	f.mu.Lock()
	known, ok := f.known[digest]
	f.mu.Unlock()
	if ok && os.SameFile(known.record, record) && known.record.Size() == record.Size() &&
		known.record.ModTime().Equal(record.ModTime()) {
		return known.value, used, nil
	}
	if value, err = read(); err != nil {
		return value, time.Time{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[string]fact[T]{}
	}
	f.known[digest] = fact[T]{record, value}
	return value, used, nil
}

// Recall returns a known fact without reading the disk.
func (f *Facts[T]) Recall(digest string) (value T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.known[digest]
	return known.value, ok
}

// Retain forgets the facts of all other trees.
func (f *Facts[T]) Retain(digests []string) {
	there := make(map[string]bool, len(digests))
	for _, digest := range digests {
		there[digest] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.known, func(digest string, _ fact[T]) bool { return !there[digest] })
}
