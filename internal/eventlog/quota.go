package eventlog

import (
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/room"
)

// DefaultQuota is a quota in bytes for a server.
const DefaultQuota = 4 << 30

// Quota bounds the logs of several folders together: the finished ones, and as much again of those that are not
// finished, half of it of one owner. The zero value has no bound. Its lock guards the lists of all its folders.
type Quota struct {
	most       int64      // bytes of finished logs; 0 is no bound
	unfinished *room.Room // bytes of the others, beyond freeBytes of each; nil is no bound

	mu      sync.Mutex
	bytes   int64
	folders []*Folder
}

// NewQuota returns a quota of so many bytes.
func NewQuota(most int64) *Quota { return &Quota{most: most, unfinished: room.Halves(most)} }

// freeBytes is how much of each unfinished log is not counted, and the unit in which the rest is.
const freeBytes = 64 << 10

// Bytes returns what the finished logs of all folders take.
func (q *Quota) Bytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// over takes the oldest finished log of the owner with the most bytes off the list of its folder, if there are too many
// bytes. The caller holds mu.
func (q *Quota) over() (of *Folder, e Entry, is bool) {
	if q.most == 0 || q.bytes <= q.most {
		return nil, e, false
	}
	bytes := map[string]int64{}
	for _, f := range q.folders {
		bytes[f.owner] += f.bytes
	}
	for _, f := range q.folders {
		if len(f.finished) == 0 || of != nil && bytes[f.owner] < bytes[of.owner] {
			continue
		}
		if of == nil || bytes[f.owner] > bytes[of.owner] || f.finished[0].Written.Before(of.finished[0].Written) {
			of = f
		}
	}
	if of == nil {
		return nil, e, false
	}
	return of, of.pop(), true
}

// leave forgets a folder that is removed.
func (q *Quota) leave(f *Folder) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= f.bytes
	f.finished, f.bytes = nil, 0
	q.folders = slices.DeleteFunc(q.folders, func(other *Folder) bool { return other == f })
}

// push adds a finished log, the newest. The caller holds the quota's mu.
func (f *Folder) push(e Entry) {
	f.finished = append(f.finished, Entry{ID: e.ID, Bytes: e.Bytes, Written: e.Written})
	f.bytes += e.Bytes
	f.quota.bytes += e.Bytes
}

// full reports whether there are more finished logs than the retention keeps. The caller holds the quota's mu.
func (f *Folder) full() bool { return len(f.finished) > f.keep.Logs || f.bytes > f.keep.Bytes }

// pop takes the oldest off the list. The caller holds the quota's mu.
func (f *Folder) pop() Entry {
	e := f.finished[0]
	f.finished = f.finished[1:]
	f.bytes -= e.Bytes
	f.quota.bytes -= e.Bytes
	return e
}

// doomed is a log that is off the list and to be removed.
type doomed struct {
	folder *Folder
	Entry
}

// trim adds logs to the list and removes those above the bounds.
func (f *Folder) trim(add ...Entry) (list []doomed) {
	q := f.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range add {
		e.Written = time.Now()
		f.push(e)
	}
	for f.full() {
		list = append(list, doomed{f, f.pop()})
	}
	for {
		of, e, is := q.over()
		if !is {
			return list
		}
		list = append(list, doomed{of, e})
	}
}
