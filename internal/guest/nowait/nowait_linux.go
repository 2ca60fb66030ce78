// Package nowait reads and writes non-blocking descriptors without the notice to the Go runtime that a system call may
// take long. The notice wakes the runtime's monitor thread when the process was idle, which costs more than the call.
package nowait

import (
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// File is a non-blocking descriptor that the runtime's poller watches. One goroutine may read while another writes.
type File struct {
	raw     syscall.RawConn
	in, out transfer
}

// transfer is one direction.
type transfer struct {
	p   []byte
	n   int
	err error
	try func(fd uintptr) bool
}

// New returns nil if file, an *os.File or a connection, has no non-blocking descriptor.
func New(file any) *File {
	c, ok := file.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	flags := 0
	if err := raw.Control(func(fd uintptr) { flags, _ = unix.FcntlInt(fd, unix.F_GETFL, 0) }); err != nil {
		return nil
	}
	if flags&unix.O_NONBLOCK == 0 { // a call would stop all goroutines
		return nil
	}
	f := &File{raw: raw}
	f.in.try = func(fd uintptr) bool {
		f.in.n, f.in.err = Read(int(fd), f.in.p)
		return f.in.err != unix.EAGAIN
	}
	f.out.try = func(fd uintptr) bool {
		f.out.n, f.out.err = Write(int(fd), f.out.p)
		return true
	}
	return f
}

// Read waits for bytes and reads some of them. It observes the deadlines of the file.
func (f *File) Read(p []byte) (int, error) {
	f.in.p = p
	err := f.raw.Read(f.in.try)
	f.in.p = nil
	switch {
	case err != nil:
		return 0, err
	case f.in.err != nil:
		return 0, f.in.err
	case f.in.n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return f.in.n, nil
}

// TryWrite returns how many bytes the descriptor took without a wait.
func (f *File) TryWrite(p []byte) (int, error) {
	f.out.p = p
	err := f.raw.Write(f.out.try)
	f.out.p = nil
	if err == nil && f.out.err != unix.EAGAIN {
		err = f.out.err
	}
	return f.out.n, err
}

// Read reads what a non-blocking descriptor has, else it fails with EAGAIN.
func Read(fd int, p []byte) (int, error) { return call(unix.SYS_READ, fd, p) }

// Write writes what a non-blocking descriptor takes, else it fails with EAGAIN.
func Write(fd int, p []byte) (int, error) { return call(unix.SYS_WRITE, fd, p) }

func call(number uintptr, fd int, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, _, errno := unix.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// Unread returns how many bytes can be read from a pipe or terminal; 0 if that is unknown.
func Unread(fd int) int {
	var n int32
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCINQ, uintptr(unsafe.Pointer(&n))) // FIONREAD
	if errno != 0 {
		return 0
	}
	return max(int(n), 0)
}
