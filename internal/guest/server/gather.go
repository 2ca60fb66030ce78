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
	fd    int           // the pipe, which the runtime does not watch; -1 before the first wait
	short int           // short reads in a row
	hurry chan struct{} // holds a token if somebody waits for what is in the pipe

	mu       sync.Mutex
	taken    uint64   // bytes read so far
	file     *os.File // the pipe, which the runtime watches; nil while nobody does
	deadline time.Time
}

func newGatherer(pipe *os.File) *gatherer {
	return &gatherer{fd: -1, file: pipe, hurry: make(chan struct{}, 1)}
}

// Read reads what there is, or waits for it.
func (g *gatherer) Read(b []byte) (n int, err error) {
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

// gather waits and reads what has come meanwhile: 0 and no error where nothing has.
func (g *gatherer) gather(b []byte) (int, error) {
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

// await waits until the runtime has seen something in the pipe, and reads it.
func (g *gatherer) await(b []byte) (n int, err error) {
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

// take reads what there is and counts it, under the lock: no byte is between the pipe and the count where written looks. It never waits, as
// the guest's end of a pipe is non-blocking.
func (g *gatherer) take(fd int, b []byte) (n int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		if n, err = unix.Read(fd, b); err != unix.EINTR {
			break
		}
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	n = max(n, 0)
	g.taken += uint64(n)
	return n, err
}

// written returns how many bytes were written to the pipe until now: those read and those still in it. After Close it is those read. Who
// asks waits for them, so they are gathered no longer.
func (g *gatherer) written() uint64 {
	select {
	case g.hurry <- struct{}{}:
	default:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	left := 0
	if g.file != nil {
		if raw, err := g.file.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { left = unread(int(fd)) })
		}
	} else if g.fd >= 0 {
		left = unread(g.fd)
	}
	return g.taken + uint64(left)
}

// unread returns how many bytes can be read from a pipe or terminal.
func unread(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ) // FIONREAD
	if err != nil {
		return 0
	}
	return max(n, 0)
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
