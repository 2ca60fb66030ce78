package egress

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// copyRaw passes the bytes of a connection to take, until the end. For a TCP connection it holds a buffer only while
// there is something to read.
func copyRaw(from net.Conn, take func([]byte) error) error {
	conn, ok := from.(*net.TCPConn)
	if !ok {
		return copyPlain(from, take)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return errReset
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		b := copyBuffers.Get().(*[copySize]byte)
		defer copyBuffers.Put(b)
		for {
			n, err := unix.Read(int(fd), b[:])
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.EAGAIN):
				return false
			case err != nil:
				failed = errReset
			case n > 0:
				if failed = take(b[:n]); failed == nil {
					continue
				}
			}
			return true
		}
	})
	if err != nil && failed == nil {
		return errReset // it was closed
	}
	return failed
}

// copyPlain is copyRaw for the connections of another dialer.
func copyPlain(from io.Reader, take func([]byte) error) error {
	b := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(b)
	for {
		n, err := from.Read(b[:])
		if n > 0 {
			if failed := take(b[:n]); failed != nil {
				return failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errReset
		}
	}
}
