package eventlog

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Follow hands each event with an id above after to take, in order and once, and waits for new ones until ctx ends. It
// returns nil after the done event. Data is valid until take returns; an error of take ends Follow and is returned. An
// id that does not exist yet is Invalid.
//
// Follow syncs what it hands over. A slow follower holds up nobody, and has at most one piece of the log in memory. It
// begins to read at most a piece before the event that it hands over first.
func (l *Log) Follow(ctx context.Context, after uint64, take func(Event) error) error {
	return l.FollowIn(ctx, after, nil, take)
}

// Room permits the memory for a large event of so many bytes, perhaps after a wait. An error ends Follow and is
// returned. The memory is free again when release is called.
type Room func(ctx context.Context, bytes int64) (release func(), err error)

// FollowIn is Follow with a room for events that are larger than a piece; nil is endless.
func (l *Log) FollowIn(ctx context.Context, after uint64, room Room, take func(Event) error) error {
	from, err := l.find(after)
	if err != nil {
		return err
	}
	f, stored := follower{log: l, at: from.at, room: room}, from.stored
	defer f.close()
	for {
		f.free()
		b, err := f.next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		used, err := l.disk.seed.walk(b, func(e Event) error {
			if e.Kind.isOutput() {
				next := &stored[e.Kind-Stdout]
				e.Gap = e.Offset - uint64(len(e.Data)) - *next
				*next = e.Offset
			}
			if e.ID <= after {
				return nil
			}
			return take(e)
		})
		if err == nil && used == 0 {
			err = errDamaged
		}
		if errors.Is(err, errDamaged) {
			return l.unreadable(err)
		}
		if err != nil {
			return err
		}
		f.at += int64(used)
	}
}

// find returns where to begin reading for the events after an id: at most a piece before them.
func (l *Log) find(after uint64) (mark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after > l.last.ID {
		return mark{}, sandbox.Invalidf("after", "there is no event %d; the last is %d", after, l.last.ID)
	}
	i, found := slices.BinarySearchFunc(l.marks, after+1, func(m mark, id uint64) int {
		switch {
		case m.id < id:
			return -1
		case m.id > id:
			return 1
		}
		return 0
	})
	if !found {
		i-- // the first mark is that of event 1
	}
	return l.marks[i], nil
}

// follower is one call of Follow.
type follower struct {
	log     *Log
	at      int64    // offset in the file of the next record
	file    *os.File // nil until it needs what is no longer in memory
	buf     []byte
	room    Room
	release func() // the room of the record that is handed over; nil if it is small
}

func (f *follower) close() {
	f.free()
	if f.file != nil {
		f.file.Close()
	}
}

// free gives up the memory of a large record that was handed over.
func (f *follower) free() {
	if f.release != nil {
		f.buf = nil
		f.release()
		f.release = nil
	}
}

// large takes the room for a large record.
func (f *follower) large(ctx context.Context, bytes int64) (err error) {
	if f.room != nil && f.release == nil && bytes > piece {
		f.release, err = f.room(ctx, bytes)
	}
	return err
}

// next waits for synced records and returns some, from the first that was not handed over. After the last it returns
// io.EOF.
func (f *follower) next(ctx context.Context) ([]byte, error) {
	l := f.log
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l.mu.Lock()
		var more chan struct{}
		base, synced, mem, end, finished, closed := l.base, l.synced, l.mem, l.end(), l.finished, l.closed
		if f.at == end && !finished && !closed {
			if l.more == nil {
				l.more = make(chan struct{})
			}
			more = l.more
		}
		l.mu.Unlock()
		switch {
		case closed:
			return nil, errClosed()
		case f.at < base:
			return f.read(ctx, base)
		case f.at < synced:
			b := mem[f.at-base : synced-base]
			return b, f.large(ctx, recordSize(b)) // a large one has this memory for itself
		case synced < end:
			if err := l.Sync(); err != nil {
				return nil, err
			}
		case finished:
			return nil, io.EOF
		default:
			select {
			case <-more:
			case <-ctx.Done():
			}
		}
	}
}

// read reads records from the file, which has them up to end.
func (f *follower) read(ctx context.Context, end int64) (b []byte, err error) {
	l := f.log
	if f.file == nil {
		f.file, err = nolink.Open(l.path, os.O_RDONLY, 0)
		if err != nil {
			return nil, l.unreadable(err)
		}
	}
	var refused error
	f.buf, err = readRecords(f.file, f.at, end, f.buf, func(bytes int64) error {
		refused = f.large(ctx, bytes)
		return refused
	})
	if refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, l.unreadable(err)
	}
	return f.buf, nil
}

// unreadable explains an error of reading the file: it may have been removed, and may hold another log now.
func (l *Log) unreadable(err error) error {
	if _, missing := os.Lstat(l.path); errors.Is(missing, fs.ErrNotExist) {
		return &sandbox.Error{Kind: sandbox.NotFound, Op: "event log",
			Msg: "it was removed, as the oldest of ended runs are when there are many",
			Fix: "follow a run while it runs, or soon after"}
	}
	return failed("read "+l.path, err)
}
