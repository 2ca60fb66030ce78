package eventlog

import (
	"os"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
)

// Open reads a log after a restart, checks all of it, and cuts off a torn end. If it is not finished, events can be
// appended. It fails with NotFound, and with Unavailable for a file without a whole header. Nobody else may have the
// log open.
func Open(path string) (l *Log, head []byte, err error) {
	file, err := nolink.Open(path, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, failed("open", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, failed("open", err)
	}
	h, s, err := readHeader(file)
	if err != nil {
		return nil, nil, failed("read "+path, err)
	}
	l = &Log{path: path, bounds: h.bounds, began: h.began, disk: onDisk{exists: true, seed: h.seed}, lost: s.lost,
		written: s}
	l.base = int64(headerHead + len(h.head))
	l.marks = []mark{{id: 1, at: l.base}}
	if err := l.scan(file, info.Size()); err != nil {
		return nil, nil, failed("read "+path, err)
	}
	if l.base < info.Size() {
		if err := file.Truncate(l.base); err != nil {
			return nil, nil, failed("cut "+path, err)
		}
	}
	l.synced = l.base
	// The clock may have been set back since; times never go back.
	l.began = earlier(l.began, time.Now().Add(-l.last.Time))
	return l, h.head, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// scan reads records from base on and leaves base after the last that is whole and in its place.
func (l *Log) scan(file *os.File, size int64) error {
	take := func(e Event) error {
		if e.ID != l.last.ID+1 || l.finished {
			return errDamaged
		}
		if e.Kind.isOutput() {
			l.stored[e.Kind-Stdout] = e.Offset
		}
		l.finished = e.Kind == Done
		e.Data = nil
		l.last = e
		return nil
	}
	var buf []byte
	for l.base < size {
		var err error
		if buf, err = readRecords(file, l.base, size, buf, func(int64) error { return nil }); err != nil {
			return err
		}
		used, err := l.disk.seed.walk(buf, take)
		l.base += int64(used)
		l.marks = append(l.marks, mark{l.last.ID + 1, l.base, l.stored})
		if err != nil || used == 0 {
			return nil
		}
	}
	return nil
}
