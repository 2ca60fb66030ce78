package egress

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// copyRaw passes what it reads from a connection to take, until the end. It holds a buffer only while there is
// something to read.
func copyRaw(from net.Conn, take func([]byte) error) error {
	conn, ok := from.(syscall.Conn)
	if !ok {
		return errReset
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
