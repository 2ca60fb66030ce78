package trees

import (
	"io/fs"
	"maps"
	"os"
	"sync"
)

// Facts keeps the facts that a caller needs of records, since records may be long. The zero value is empty. Its methods
// are safe for concurrent use.
type Facts[T any] struct {
	mu    sync.Mutex
	known map[string]fact[T] // by the key of the record: the digest of a tree, or a file
}

type fact[T any] struct {
	file  fs.FileInfo // of the record
	value T
}

// Of returns the fact of the record with a key, which is the file. It calls read, which decodes the record, only if the
// file has changed since: a changed record is another file.
func (f *Facts[T]) Of(key string, file fs.FileInfo, read func() (T, error)) (value T, err error) {
	f.mu.Lock()
	known, ok := f.known[key]
	f.mu.Unlock()
	if ok && os.SameFile(known.file, file) && known.file.Size() == file.Size() &&
		known.file.ModTime().Equal(file.ModTime()) {
		return known.value, nil
	}
	if value, err = read(); err != nil {
		return value, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[string]fact[T]{}
	}
	f.known[key] = fact[T]{file, value}
	return value, nil
}

// Recall returns a known fact without reading the disk.
func (f *Facts[T]) Recall(key string) (value T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.known[key]
	return known.value, ok
}

// Count returns how many facts are known.
func (f *Facts[T]) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.known)
}

// Retain forgets the facts of all other records.
func (f *Facts[T]) Retain(keys []string) {
	retained := make(map[string]bool, len(keys))
	for _, key := range keys {
		retained[key] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.known, func(key string, _ fact[T]) bool { return !retained[key] })
}
