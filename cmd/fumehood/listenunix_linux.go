package main

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// listenerIsDead reports whether the process that listens on a Unix socket has ended. Its last children may hold the
// socket until they execute their programs. The kernel reports who called listen(2), not who holds the socket
// (SO_PEERCRED in unix(7)).
func listenerIsDead(conn net.Conn) bool {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	pid := int32(0)
	_ = raw.Control(func(fd uintptr) {
		if peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = peer.Pid // 0 for a process of another pid namespace
		}
	})
	return pid > 0 && int(pid) != os.Getpid() && errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH)
}
