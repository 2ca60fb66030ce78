package eventlog

import (
	"container/list"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Log is the log of one run. Its methods may be called at the same time. While it is written it may hold one
// descriptor; finished, none.
type Log struct {
	path   string
	bounds Bounds
	began  time.Time

	writing sync.Mutex // held while the file is written; taken before mu
	disk    onDisk

	mu      sync.Mutex
	part    part // of the quota of its folder
	written slot // as it is in the file
	// the end of the file, from base; bytes once added never change, so a follower may read them without the lock
	mem      []byte
	base     int64
	synced   int64  // bytes of the file that are written; base <= synced <= base+len(mem)
	marks    []mark // in order; the first record of each piece
	last     Event  // without its data
	stored   [2]uint64
	lost     [2]uint64
	finished bool
	closed   bool
	more     chan struct{} // closed at the next change; nil without waiters
}

// onDisk is the file of a log.
type onDisk struct {
	seed   seed // of its sums; never changes
	exists bool
	file   *os.File      // nil until the first write, after the last, and while many others are written
	place  *list.Element // among those with a descriptor, whose lock guards it
}

// part is what a log takes of the quota of its folder.
type part struct {
	folder *Folder // nil is none
	held   int64
	left   int64 // the size of the file when the log got it from another one
}

// mark says where in the file a record begins, and what was stored of the streams before it.
type mark struct {
	id     uint64
	at     int64
	stored [2]uint64
}

// Last is the position of the last event of a log.
type Last struct {
	ID             uint64 // of the last event; 0 if there is none
	Finished       bool
	Stdout, Stderr uint64 // offsets of the next bytes to append
	Bytes          int64  // of the file, once all is synced
}

// Create begins a log that will be in a file, named by an absolute path without links. The head is the caller's
// description of the run. Nothing is written yet; a file that is there already fails the first Sync with Exists.
func Create(path string, head []byte, bounds Bounds) (*Log, error) {
	if bounds == (Bounds{}) {
		bounds = DefaultBounds
	}
	if err := bounds.check(len(head)); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil, sandbox.Invalidf("event log", "%q is not a clean absolute path", path)
	}
	l := &Log{path: path, bounds: bounds, began: time.Now()}
	l.disk.seed = seedOf(path, l.began)
	room := make([]byte, 0, headerHead+len(head)+firstRoom)
	l.mem = header{bounds: bounds, began: l.began, head: head, seed: l.disk.seed}.append(room)
	l.marks = []mark{{id: 1, at: int64(len(l.mem))}}
	return l, nil
}

// firstRoom is the memory that a new log has for records: enough for a short run.
const firstRoom = 512

func (b Bounds) check(head int) error {
	switch {
	case head > MaxHead:
		return &sandbox.Error{Kind: sandbox.TooLarge, Op: "event log", Msg: "the head has more than " +
			sandbox.FormatBytes(MaxHead)}
	case b.Reserve < 0 || b.Bytes < 0 || b.Bytes-b.Reserve < int64(headerHead+head+doneRoom):
		return sandbox.Invalidf("event log", "a file of %s leaves no room for output", sandbox.FormatBytes(b.Bytes))
	}
	return nil
}

// Append adds an event and returns its id. The data is copied. Of output, offset is the position in the process's
// stream of the byte after data; it never goes back. Output that does not fit any more is counted and has id 0. Other
// events that do not fit are refused with TooLarge. A failure to write refuses the event; after an error the same
// Append may be tried again.
func (l *Log) Append(kind Kind, offset uint64, data []byte) (id uint64, err error) {
	if !kind.known() || kind == Done {
		return 0, sandbox.Invalidf("event log", "an event of kind %v cannot be appended", kind)
	}
	if len(data) > MaxData {
		return 0, tooLarge(kind, MaxData)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.makeRoom(len(data)); err != nil {
		return 0, err
	}
	size, room := recordHead+int64(len(data)), l.bounds.Bytes-doneRoom-l.end()
	if kind.isOutput() {
		s := kind - Stdout
		if next := max(l.stored[s], l.lost[s]); offset < uint64(len(data)) || offset-uint64(len(data)) < next {
			return 0, sandbox.Invalidf("event log", "%v goes back from %d to %d", kind, next, offset-uint64(len(data)))
		}
		if size > room-l.bounds.Reserve || !l.hold(l.end()+size) {
			l.lost[s] = offset
			return 0, nil
		}
	} else if size > room {
		return 0, tooLarge(kind, room)
	} else if !l.hold(l.end() + size) {
		return 0, tooLarge(kind, freeBytes+l.part.held-l.end())
	}
	l.add(Event{Kind: kind, Offset: offset, Data: data})
	return l.last.ID, nil
}

// hold takes the room that the file needs with so many bytes.
func (l *Log) hold(bytes int64) bool {
	if l.part.folder == nil || l.part.folder.quota.unfinished == nil || bytes <= freeBytes+l.part.held {
		return true
	}
	more := (bytes - l.part.held - 1) / freeBytes * freeBytes
	if !l.part.folder.quota.unfinished.Take(l.part.folder.owner, more) {
		return false
	}
	l.part.held += more
	return true
}

// give gives back the room of the file.
func (l *Log) give() {
	if l.part.held > 0 {
		l.part.folder.quota.unfinished.Give(l.part.folder.owner, l.part.held)
		l.part.held = 0
	}
}

func tooLarge(kind Kind, most int64) error {
	msg := "this " + kind.String() + " event has more than the " + sandbox.FormatBytes(max(most, 0)) + " that are left"
	return &sandbox.Error{Kind: sandbox.TooLarge, Op: "event log", Msg: msg}
}

// makeRoom syncs until memory has room for a record, or holds nothing else. It gives up the lock meanwhile.
func (l *Log) makeRoom(data int) error {
	for {
		switch {
		case l.closed:
			return errClosed()
		case l.finished:
			return sandbox.Invalidf("event log", "the run is over")
		case len(l.mem) == 0 || len(l.mem)+recordHead+data <= memory:
			return nil
		case l.synced == l.end():
			l.forget()
			l.mem = make([]byte, 0, memory)
			return nil
		}
		l.mu.Unlock()
		err := l.Sync()
		l.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// forget frees the memory of a log whose file has all of it. The caller holds mu.
func (l *Log) forget() {
	l.base, l.mem = l.synced, nil
	l.marks = append(l.marks, mark{l.last.ID + 1, l.base, l.stored})
}

func (l *Log) end() int64 { return l.base + int64(len(l.mem)) }

func (l *Log) add(e Event) {
	e.ID, e.Time = l.last.ID+1, max(l.last.Time, time.Since(l.began))
	l.mem = l.disk.seed.appendRecord(l.mem, e)
	if e.Kind.isOutput() {
		l.stored[e.Kind-Stdout] = e.Offset
	}
	e.Data = nil
	l.last = e
	l.wake()
}

func (l *Log) wake() {
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

// Finish appends the done event and syncs. If output at the end of a stream was not stored, an empty event shows the
// gap first. If only the writing failed, the log is finished and Sync tries again.
func (l *Log) Finish(data []byte) error {
	if len(data) > MaxDone {
		return tooLarge(Done, MaxDone)
	}
	if err := l.finish(data); err != nil {
		return err
	}
	return l.Sync()
}

// Written reports whether the log has a file.
func (l *Log) Written() bool {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.disk.exists
}

func (l *Log) finish(data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.give() // whatever happens: the run is over
	if err := l.makeRoom(len(data)); err != nil && (l.closed || l.finished) {
		return err // after a failed write, the end takes more memory
	}
	for s := range l.lost {
		if l.lost[s] > l.stored[s] {
			l.add(Event{Kind: Stdout + Kind(s), Offset: l.lost[s]})
		}
	}
	l.finished = true
	l.add(Event{Kind: Done, Data: data})
	return nil
}

// Sync writes what only memory has to the file. If nothing is new, it costs a lock.
func (l *Log) Sync() error {
	if w, err := l.unwritten(); err != nil || !w.dirty {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	w, err := l.unwritten()
	if err != nil || !w.dirty {
		return err
	}
	if err := l.write(w); err != nil {
		return err
	}
	l.mu.Lock()
	l.synced = w.at + int64(len(w.records))
	switch {
	case w.slot.finished && len(l.mem) > kept:
		l.base, l.mem = l.synced, nil
	case w.slot.finished:
		l.mem = slices.Clone(l.mem) // its buffer may be larger
	case l.synced == l.end() && cap(l.mem) > 2*memory: // of a large event; otherwise the next event would free it
		l.forget()
	}
	l.mu.Unlock()
	if w.slot.finished {
		return l.shut()
	}
	return nil
}

// unwritten returns what is not in the file yet.
type unwritten struct {
	records []byte // the header too, in the first write
	at      int64
	slot    slot
	dirty   bool
}

// unwritten is called with writing held, or for a first look without it.
func (l *Log) unwritten() (unwritten, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := unwritten{records: l.mem[l.synced-l.base:], at: l.synced, slot: slot{finished: l.finished, lost: l.lost}}
	w.dirty = len(w.records) > 0 || w.slot != l.written
	if w.slot != l.written && l.base == 0 && len(l.mem) <= kept { // all of it at once, with the slot
		w.records, w.at = l.mem, 0
	}
	if w.dirty && l.closed {
		return w, errClosed()
	}
	return w, nil
}

// write writes records, and then the slot that tells of them. The next Sync repeats all of a write that failed.
func (l *Log) write(w unwritten) error {
	if err := l.open(); err != nil {
		return failed("open", err)
	}
	open.use(l)
	records := w.records
	if w.at == 0 { // a follower never reads the header, but Append may be copying it to a larger buffer
		records = slices.Clone(records)
		w.slot.put(records[slotAt:], l.disk.seed)
	}
	if _, err := l.disk.file.WriteAt(records, w.at); err != nil {
		return failed("write", err)
	}
	if w.at > 0 && w.slot != l.written {
		var fixed [slotSize]byte
		w.slot.put(fixed[:], l.disk.seed)
		if _, err := l.disk.file.WriteAt(fixed[:], int64(slotAt)); err != nil {
			return failed("write", err)
		}
	}
	l.mu.Lock()
	l.written = w.slot
	l.mu.Unlock()
	return nil
}

// open opens the file, or makes it. The caller holds writing.
func (l *Log) open() (err error) {
	switch {
	case l.disk.file != nil:
		return nil
	case l.disk.exists:
		l.disk.file, err = nolink.Open(l.path, os.O_WRONLY, 0)
		return err
	}
	file, size := l.part.folder.reuse(l.path)
	if file == nil {
		file, err = nolink.Open(l.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	l.disk.file, l.disk.exists = file, err == nil
	l.mu.Lock()
	l.part.left = size
	l.mu.Unlock()
	return err
}

// shut closes the descriptor. The caller holds writing.
func (l *Log) shut() error {
	if l.disk.file == nil {
		return nil
	}
	open.drop(l)
	err := l.disk.file.Close()
	l.disk.file = nil
	return failed("close", err)
}

// Last returns the position of the last event, including what is not synced.
func (l *Log) Last() Last {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Last{ID: l.last.ID, Finished: l.finished, Stdout: max(l.stored[0], l.lost[0]),
		Stderr: max(l.stored[1], l.lost[1]), Bytes: max(l.end(), l.part.left)}
}

// Close syncs and releases. Followers return Unavailable; Close does not wait for what they call. It may be called
// twice.
func (l *Log) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return nil
	}
	err := l.Sync()
	return errors.Join(err, l.release())
}

// Remove closes without a sync and removes the file.
func (l *Log) Remove() error {
	err := l.release()
	l.writing.Lock()
	defer l.writing.Unlock()
	if !l.disk.exists {
		return err
	}
	if gone := os.Remove(l.path); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, failed("remove", gone))
	}
	return err
}

func (l *Log) release() error {
	l.mu.Lock()
	l.closed = true
	l.give()
	l.wake()
	l.mu.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.shut()
}

func errClosed() error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "event log", Msg: "the log is closed"}
}

// failed wraps an error of the file system; nil returns nil.
func failed(step string, err error) error {
	if err == nil {
		return nil
	}
	e := &sandbox.Error{Kind: sandbox.KindOf(err), Op: "event log: " + step, Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		e.Kind, e.Fix = sandbox.Unavailable, "free space in the state folder of Fumehood"
	case errors.Is(err, fs.ErrExist):
		e.Kind = sandbox.Exists
	case errors.Is(err, fs.ErrNotExist):
		e.Kind = sandbox.NotFound
	}
	return e
}
