package eventlog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/nolink"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Retention says how many finished logs of a folder are kept. The zero value is DefaultRetention.
type Retention struct {
	Logs  int
	Bytes int64
}

// DefaultRetention applies where none is given.
var DefaultRetention = Retention{Logs: 100, Bytes: 256 << 20}

// Folder holds the logs of one sandbox's executions, each in a file named after its id. It removes the oldest finished ones.
type Folder struct {
	dir  string
	keep Retention

	mu       sync.Mutex
	finished []Entry // oldest first, without their heads
	bytes    int64   // of them
}

// Entry is one log in a folder.
type Entry struct {
	ID       sandbox.ID
	Head     []byte
	Finished bool      // Open may find that a log is finished where this says it is not
	Bytes    int64     // of the file
	Written  time.Time // last
	Err      error     // why its head cannot be read; such a log counts as finished, and is removed in its turn
}

const suffix = ".log"

// OpenFolder opens or makes a folder, named by an absolute path without links, closes it to other users, and lists its logs, the
// oldest first.
func OpenFolder(dir string, keep Retention) (*Folder, []Entry, error) {
	if keep == (Retention{}) {
		keep = DefaultRetention
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, nil, failed("make", err)
	}
	opened, err := nolink.Open(dir, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, failed("open", err)
	}
	defer opened.Close()
	if err := opened.Chmod(0o700); err != nil {
		return nil, nil, failed("close to others", err)
	}
	files, err := opened.ReadDir(-1)
	if err != nil {
		return nil, nil, failed("list", err)
	}
	f := &Folder{dir: dir, keep: keep}
	var entries []Entry
	for _, file := range files {
		name, isLog := strings.CutSuffix(file.Name(), suffix)
		if id, err := sandbox.ParseID(name); isLog && err == nil {
			entries = append(entries, f.look(id))
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return a.Written.Compare(b.Written) })
	for _, e := range entries {
		if e.Finished || e.Err != nil {
			f.finished = append(f.finished, Entry{ID: e.ID, Bytes: e.Bytes})
			f.bytes += e.Bytes
		}
	}
	return f, entries, nil
}

func (f *Folder) look(id sandbox.ID) Entry {
	e := Entry{ID: id}
	file, err := nolink.Open(f.File(id), os.O_RDONLY, 0)
	if err != nil {
		e.Err = failed("open", err)
		return e
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil {
		e.Bytes, e.Written = info.Size(), info.ModTime()
		var h header
		var s slot
		h, s, err = readHeader(file)
		e.Head, e.Finished = h.head, s.finished
	}
	if err != nil {
		e.Err = failed("read "+f.File(id), err)
	}
	return e
}

// File returns the path of the log of an execution.
func (f *Folder) File(id sandbox.ID) string { return filepath.Join(f.dir, string(id)+suffix) }

// Retire counts a log among the finished ones, and removes the oldest of them beyond the retention: their ids are returned. It costs no
// listing. A follower that still reads a removed log may fail with NotFound.
func (f *Folder) Retire(id sandbox.ID, bytes int64) (removed []sandbox.ID, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished = append(f.finished, Entry{ID: id, Bytes: bytes})
	f.bytes += bytes
	for len(f.finished) > f.keep.Logs || f.bytes > f.keep.Bytes {
		oldest := f.finished[0]
		if err := os.Remove(f.File(oldest.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, failed("remove", err)
		}
		f.finished, f.bytes = f.finished[1:], f.bytes-oldest.Bytes
		removed = append(removed, oldest.ID)
	}
	return removed, nil
}

// Remove removes the folder and all logs in it.
func (f *Folder) Remove() error { return failed("remove", os.RemoveAll(f.dir)) }
