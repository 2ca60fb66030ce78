package server

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/nowait"
)

// Each small write of a program wakes the watcher of its pipe. Under gVisor that costs three times as much as the
// write, and an unbuffered print of Python is four writes.
const (
	gatherAfter = 8 // short reads in a row
	gatherFor   = time.Millisecond
)

// pipeReader reads a pipe and does not watch it while many small pieces arrive: after some short reads it polls once a
// millisecond, until the pipe is empty. It waits only after its reader has passed on the previous piece, so it delays
// only pieces that follow at once, and never the end of a program that writes little. Only one goroutine may read.
type pipeReader struct {
	fd    int           // the pipe, not watched by the runtime; -1 before the first wait
	short int           // short reads in a row
	hurry chan struct{} // holds a token if somebody waits for the pipe's content

	mu       sync.Mutex
	taken    uint64   // bytes read so far
	file     *os.File // the pipe, watched by the runtime; nil while it is not
	deadline time.Time
}

func newPipeReader(pipe *os.File) *pipeReader {
	return &pipeReader{fd: -1, file: pipe, hurry: make(chan struct{}, 1)}
}

// Read reads available bytes, or waits for some.
func (g *pipeReader) Read(b []byte) (n int, err error) {
	if g.short > gatherAfter {
		n, err = g.gather(b)
	}
	if n == 0 && err == nil {
		n, err = g.await(b)
	}
	if g.short++; n == len(b) {
		g.short = 0
	}
	return n, err
}

// gather waits, then reads the bytes that have arrived: 0 and no error if there are none.
func (g *pipeReader) gather(b []byte) (int, error) {
	if err := g.unwatch(); err != nil {
		return 0, err
	}
	select {
	case <-time.After(gatherFor):
	case <-g.hurry:
	}
	if g.late() {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := g.take(g.fd, b)
	if err == unix.EAGAIN {
		err = nil
		g.short = 0 // the program pauses
	}
	return n, err
}

// await waits until the runtime reports bytes in the pipe, and reads them.
func (g *pipeReader) await(b []byte) (n int, err error) {
	file, err := g.watch()
	if err != nil {
		return 0, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	waiting := raw.Read(func(fd uintptr) bool {
		n, err = g.take(int(fd), b)
		return err != unix.EAGAIN
	})
	if waiting != nil {
		return 0, waiting
	}
	return n, err
}

// take reads and counts bytes under the lock, so that written sees each byte either in the pipe or in the count. It
// never waits, as the guest's end of a pipe is non-blocking.
func (g *pipeReader) take(fd int, b []byte) (n int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, err = nowait.Read(fd, b)
	if err == nil && n == 0 {
		err = io.EOF
	}
	g.taken += uint64(n)
	return n, err
}

// written returns how many bytes the program has written: those read and, before Close, those in the pipe. The caller
// waits for them, so gather returns at once.
func (g *pipeReader) written() uint64 {
	select {
	case g.hurry <- struct{}{}:
	default:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	left := 0
	if g.file != nil {
		if raw, err := g.file.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { left = nowait.Unread(int(fd)) })
		}
	} else if g.fd >= 0 {
		left = nowait.Unread(g.fd)
	}
	return g.taken + uint64(left)
}

func (g *pipeReader) watch() (*os.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil {
		return g.file, nil
	}
	fd, err := unix.FcntlInt(uintptr(g.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	g.file = os.NewFile(uintptr(fd), "pipe")
	return g.file, g.file.SetReadDeadline(g.deadline)
}

// unwatch ends the runtime's watch of the pipe.
func (g *pipeReader) unwatch() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file == nil {
		return nil
	}
	if g.fd < 0 {
		raw, err := g.file.SyscallConn()
		if err != nil {
			return err
		}
		raw.Control(func(fd uintptr) { g.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
		if err != nil {
			return err
		}
	}
	file := g.file
	g.file = nil
	return file.Close()
}

func (g *pipeReader) late() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.deadline.IsZero() && !time.Now().Before(g.deadline)
}

// SetReadDeadline bounds how long Read waits, now and from now on.
func (g *pipeReader) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline = t
	if g.file == nil {
		return nil
	}
	return g.file.SetReadDeadline(t)
}

// SyscallConn may only be called by the reader.
func (g *pipeReader) SyscallConn() (syscall.RawConn, error) {
	file, err := g.watch()
	if err != nil {
		return nil, err
	}
	return file.SyscallConn()
}

// Close may only be called by the reader.
func (g *pipeReader) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fd >= 0 {
		unix.Close(g.fd)
		g.fd = -1
	}
	if g.file == nil {
		return nil
	}
	file := g.file
	g.file = nil
	return file.Close()
}
