package server

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/nowait"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Sizes of one read of output. It grows while reads fill it.
const (
	readLeast = 4 << 10
	readMost  = pipeSize

	pipeSize = 256 << 10 // requested; a smaller one works too
)

// output is one output stream of a process, kept until acknowledged. The ring's positions are the stream's offsets.
type output struct {
	p      *process
	stream sandbox.Stream
	file   source // closed by pump
	limit  int    // bytes kept
	lossy  bool   // beyond limit, drop the oldest instead of blocking the process

	// Guarded by the process's mu.
	ring       wire.Ring
	marks      marks     // of the channel
	room       sync.Cond // signals acknowledgement or abandonment
	incomplete bool
	closed     bool // the stream has ended
	next       *replacement
}

// source is the guest's end of an output stream.
type source interface {
	io.ReadCloser
	syscall.Conn
	SetReadDeadline(time.Time) error
}

// directReader is a file whose reads are those of nowait.
type directReader struct {
	*os.File
	direct *nowait.File
}

func (r directReader) Read(b []byte) (int, error) { return r.direct.Read(b) }

func newOutput(p *process, stream sandbox.Stream, file source, limit int, lossy bool) *output {
	o := &output{p: p, stream: stream, file: file, limit: limit, lossy: lossy}
	o.room.L = &p.mu
	return o
}

// pump moves output from its pipe into the ring, until the last writer closes it or Drain is over.
func (o *output) pump() {
	size := readLeast
	complete := false
	for {
		buf := o.reserve(size)
		if buf == nil {
			break
		}
		n, err := o.file.Read(buf)
		o.commit(n)
		if errors.Is(err, os.ErrDeadlineExceeded) && o.change() {
			continue
		}
		if err != nil {
			complete = o.over(err)
			break
		}
		if n == len(buf) && size < readMost {
			size = min(4*size, readMost)
		}
	}
	if o.p.tty == nil {
		o.file.Close()
	} else {
		o.p.stdin.close() // a terminal is one file
	}
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	o.incomplete, o.closed = !complete, true
	if o.next != nil {
		close(o.next.done)
		o.next = nil
	}
	o.ring.Trim()
	o.p.ended()
}

// over reports whether the output is complete after this read error.
func (o *output) over(err error) bool {
	switch {
	case err == io.EOF:
		return true
	case errors.Is(err, syscall.EIO): // a terminal that no process has open any more
		return true
	case errors.Is(err, os.ErrDeadlineExceeded):
		return o.drain()
	}
	return false
}

// drain reads the rest of the pipe after Drain: the ring may have had no room for it before. It reports whether that
// was all.
func (o *output) drain() bool {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return false
	}
	left := 0
	raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // FIONREAD
	for err == nil {
		// If nothing is left, reading one more byte distinguishes the end from a remaining writer.
		buf := o.reserve(max(1, min(left, readMost)))
		if buf == nil {
			return false
		}
		n := 0
		raw.Control(func(fd uintptr) { n, err = o.take(int(fd), buf) })
		if err == syscall.EINTR {
			err = nil
			continue
		}
		o.commit(n)
		if err == nil && n == 0 || err == io.EOF || err == syscall.EIO {
			return true
		}
		if left <= 0 {
			return false
		}
		left -= n
	}
	return false
}

// take reads without waiting.
func (o *output) take(fd int, b []byte) (int, error) {
	if g, ok := o.file.(*pipeReader); ok {
		return g.take(fd, b)
	}
	n, err := unix.Read(fd, b)
	return max(n, 0), err
}

// reserve waits for room and returns at most size bytes of it, or nil once the record is dropped.
func (o *output) reserve(size int) []byte {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	for !o.p.forgotten && !o.lossy && o.ring.Len() >= o.limit {
		o.room.Wait()
	}
	if o.p.forgotten {
		return nil
	}
	if !o.lossy {
		size = min(size, o.limit-o.ring.Len())
	}
	first, _ := o.ring.Reserve(size)
	return first
}

func (o *output) commit(n int) {
	if n <= 0 {
		return
	}
	var before mark
	if o.stream == sandbox.Channel {
		before = o.p.written() // after the read, so it counts everything written before these bytes
	}
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	o.ring.Commit(n)
	if o.stream == sandbox.Channel {
		before.end = o.ring.End()
		o.marks.add(before)
	}
	if over := o.ring.Len() - o.limit; over > 0 {
		o.consume(over)
	}
	o.p.changed.Broadcast()
}

// forget drops output before the offset. Called with the process's mu held.
func (o *output) forget(offset uint64) {
	if offset <= o.ring.Start() {
		return
	}
	o.consume(int(min(offset, o.ring.End()) - o.ring.Start()))
	o.room.Signal()
	if o.closed {
		o.ring.Trim()
	}
}

// consume drops the oldest n bytes. Called with the process's mu held.
func (o *output) consume(n int) {
	o.ring.Consume(n)
	o.marks.forget(o.ring.Start())
}
