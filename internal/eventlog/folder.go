package eventlog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Retention says how many finished logs of a folder are kept. The zero value is DefaultRetention.
type Retention struct {
	Logs  int
	Bytes int64
}

// DefaultRetention applies where none is given.
var DefaultRetention = Retention{Logs: 100, Bytes: 256 << 20}

// Folder holds the logs of one sandbox's runs, each in a file named after its id. It removes the oldest finished ones.
type Folder struct {
	dir   string
	owner string
	keep  Retention
	quota *Quota

	// Guarded by the quota's mu.
	finished []Entry // oldest first, without their heads
	bytes    int64   // of them
	spare    Entry   // a removed log whose file the next one takes; an empty id is none
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

// OpenFolder opens or makes an owner's folder, named by an absolute path without links, and closes it to other users.
// It removes the oldest finished logs beyond the retention, and lists the others, the oldest first. The finished ones
// count for the quota until Remove.
func OpenFolder(dir, owner string, keep Retention, quota *Quota) (*Folder, []Entry, error) {
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
	f := &Folder{dir: dir, owner: owner, keep: keep, quota: quota}
	var entries []Entry
	for _, file := range files {
		name, isLog := strings.CutSuffix(file.Name(), suffix)
		if id, err := sandbox.ParseID(name); isLog && err == nil {
			entries = append(entries, f.look(id))
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return a.Written.Compare(b.Written) })
	quota.mu.Lock()
	defer quota.mu.Unlock()
	quota.folders = append(quota.folders, f)
	for _, e := range entries {
		if e.Finished || e.Err != nil {
			f.push(e)
		}
	}
	for f.full() { // an earlier server had removed it and kept its file for the next log
		old := f.pop().ID
		_ = os.Remove(f.File(old)) // a failure costs only space
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.ID == old })
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

// Dir returns the path of the folder.
func (f *Folder) Dir() string { return f.dir }

// File returns the path of the log of a run.
func (f *Folder) File(id sandbox.ID) string { return filepath.Join(f.dir, string(id)+suffix) }

// Create is the function Create for a log of the folder, which counts for the quota. Without room, its output is
// counted and not stored.
func (f *Folder) Create(id sandbox.ID, head []byte) (*Log, error) {
	l, err := Create(f.File(id), head, Bounds{})
	if err == nil {
		l.part.folder = f
	}
	return l, err
}

// Open is the function Open for a log of the folder, which counts for the quota unless it is finished.
func (f *Folder) Open(id sandbox.ID) (*Log, error) {
	l, _, err := Open(f.File(id))
	if err == nil && !l.finished {
		l.part.folder = f
		l.hold(l.base) // if there is no room, the log keeps what it has
	}
	return l, err
}

// Retire counts a log among the finished ones, and removes the oldest beyond the retention, and of all folders those of
// the owner with the most bytes beyond the quota: their ids are returned. It costs no listing. A follower that still
// reads a removed log may fail with NotFound. The file of one small log stays, for the next.
func (f *Folder) Retire(id sandbox.ID, bytes int64) (removed []sandbox.ID, err error) {
	for _, d := range f.trim(Entry{ID: id, Bytes: bytes}) {
		if f.keepSpare(d) {
			removed = append(removed, d.ID)
			continue
		}
		if gone := os.Remove(d.folder.File(d.ID)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, failed("remove", gone)) // the next server lists it again
			continue
		}
		removed = append(removed, d.ID)
	}
	return removed, err
}

// Remove removes the folder and all logs in it.
func (f *Folder) Remove() error {
	f.quota.leave(f)
	return failed("remove", os.RemoveAll(f.dir))
}
