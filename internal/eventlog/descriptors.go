package eventlog

import (
	"container/list"
	"sync"
)

// maxOpen is how many logs keep their descriptors between writes: those that were written last. A process may have
// thousands of logs that are not finished, of runs in the background that write nothing.
const maxOpen = 128

// open are the logs of this process that have a descriptor.
var open = descriptors{most: maxOpen}

// descriptors are logs with a descriptor, the one that was written first at the front. Each is held for writing when it
// is added or dropped.
type descriptors struct {
	mu   sync.Mutex // guards all below
	most int
	logs list.List // of *Log
}

// use notes that a log is written, and closes the file of another one past the limit.
func (d *descriptors) use(l *Log) {
	d.mu.Lock()
	if l.disk.place == nil {
		l.disk.place = d.logs.PushBack(l)
	} else {
		d.logs.MoveToBack(l.disk.place)
	}
	var oldest *Log
	if d.logs.Len() > d.most {
		oldest = d.logs.Front().Value.(*Log)
		d.logs.MoveToBack(oldest.disk.place) // it may be in use
	}
	d.mu.Unlock()
	if oldest != nil && oldest != l && oldest.writing.TryLock() {
		_ = oldest.shut() // all of it is written, and nothing was buffered
		oldest.writing.Unlock()
	}
}

func (d *descriptors) drop(l *Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.disk.place != nil {
		d.logs.Remove(l.disk.place)
		l.disk.place = nil
	}
}
