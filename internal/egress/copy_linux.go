package egress

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// copyRaw reads until the end. It holds a buffer only while there is something to read.
func copyRaw(raw syscall.RawConn, take func([]byte) error) error {
	var failed error
	ended := false
	drain := func(fd uintptr) bool {
		b := copyBuffers.Get().(*[copySize]byte)
		defer copyBuffers.Put(b)
		for failed == nil && !ended {
			n, err := unix.Read(int(fd), b[:])
			switch {
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				return false
			case err != nil:
				failed = errReset
			case n == 0:
				ended = true
			default:
				failed = take(b[:n])
			}
		}
		return true
	}
	if err := raw.Read(drain); err != nil && failed == nil {
		return errReset // it was closed
	}
	return failed
}
