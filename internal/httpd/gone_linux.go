package httpd

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp reports whether a socket has failed, or is closed in both directions (poll(2)).
func hungUp(raw syscall.RawConn) bool {
	socket := []unix.PollFd{{}}
	err := raw.Control(func(fd uintptr) {
		socket[0].Fd = int32(fd)
		_, _ = unix.Poll(socket, 0) // an interrupted call finds nothing
	})
	return err != nil || socket[0].Revents != 0
}
