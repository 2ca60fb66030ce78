package server

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A program that writes in small pieces wakes whoever watches its pipe for each of them. Under gVisor that costs three times as much as the
// write, and an unbuffered print of Python is four writes.
const (
	gatherAfter = 8 // short reads in a row
	gatherFor   = time.Millisecond
)

// gatherer reads a pipe that nobody watches while much is written to it in small pieces: after some short reads it looks once a millisecond,
// until the pipe is empty. What it has read is on its way before it waits, so nothing is late but what follows at once, and a program that
// writes little is not held up at its end. Only one goroutine may read.
type gatherer struct {
	fd    int // the pipe, which the runtime does not watch; -1 before the first wait
	short int // short reads in a row

	mu       sync.Mutex
	file     *os.File // the pipe, which the runtime watches; nil while nobody does
	deadline time.Time
}

func newGatherer(pipe *os.File) *gatherer { return &gatherer{fd: -1, file: pipe} }

// Read reads what there is, or waits for it.
func (g *gatherer) Read(b []byte) (n int, err error) {
	if g.short > gatherAfter {
		n, err = g.gather(b)
	}
	if n == 0 && err == nil {
		var file *os.File
		if file, err = g.watch(); err == nil {
			n, err = file.Read(b)
		}
	}
	if g.short++; n == len(b) {
		g.short = 0
	}
	return n, err
}

// gather waits and reads what has come meanwhile: 0 and no error where nothing has.
func (g *gatherer) gather(b []byte) (int, error) {
	if err := g.unwatch(); err != nil {
		return 0, err
	}
	time.Sleep(gatherFor)
	if g.late() {
		return 0, os.ErrDeadlineExceeded
	}
	for {
		switch n, err := unix.Read(g.fd, b); {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, nil
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// watch has the runtime watch the pipe.
func (g *gatherer) watch() (*os.File, error) {
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

// unwatch takes the pipe away from the runtime.
func (g *gatherer) unwatch() error {
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

func (g *gatherer) late() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.deadline.IsZero() && !time.Now().Before(g.deadline)
}

// SetReadDeadline bounds how long Read waits, now and from now on.
func (g *gatherer) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline = t
	if g.file == nil {
		return nil
	}
	return g.file.SetReadDeadline(t)
}

// SyscallConn is for the reader alone.
func (g *gatherer) SyscallConn() (syscall.RawConn, error) {
	file, err := g.watch()
	if err != nil {
		return nil, err
	}
	return file.SyscallConn()
}

// Close is for the reader alone.
func (g *gatherer) Close() error {
	if g.fd >= 0 {
		unix.Close(g.fd)
		g.fd = -1
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file == nil {
		return nil
	}
	return g.file.Close()
}
