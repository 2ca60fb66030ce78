package server

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	dialBuffer = 16 << 10        // bytes, for each direction of a connection
	dialLinger = 2 * time.Second // for what the host sent before it closed the connection, until the program reads it
)

// dial serves Dial. It connects to loopback alone, which is the sandbox's own: the guest is in its network namespace.
func (s *Server) dial(c *call) error {
	var m guest.Dial
	if err := c.parse(&m); err != nil {
		return err
	}
	if m.Port == 0 {
		return &guest.Failed{Kind: sandbox.Invalid, Op: "port", Msg: "0 is no port"}
	}
	v4 := unix.SockaddrInet4{Port: int(m.Port), Addr: [4]byte{127, 0, 0, 1}}
	v6 := unix.SockaddrInet6{Port: int(m.Port), Addr: [16]byte{15: 1}}
	sock, err := c.connect(unix.AF_INET, &v4, m.Port)
	if err == unix.ECONNREFUSED {
		if other, err6 := c.connect(unix.AF_INET6, &v6, m.Port); err6 == nil { // else there may be no IPv6 here
			sock, err = other, nil
		}
	}
	if errno, ok := err.(unix.Errno); ok {
		return failed("connect", errno)
	}
	if err != nil {
		return err
	}
	defer sock.Close()
	if err := c.send(&guest.Dialed{}); err != nil {
		return err
	}
	c.relay(sock)
	return nil
}

// connect returns a connected socket, or an errno, or errCanceled.
func (c *call) connect(family int, to unix.Sockaddr, port uint16) (*os.File, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // the host sends what it has
	sock := os.NewFile(uintptr(fd), "port")
	if err = c.await(sock, to); err == nil {
		err = notSelf(fd, port)
	}
	if err != nil {
		sock.Close()
		return nil, err
	}
	return sock, nil
}

// await connects a socket.
func (c *call) await(sock *os.File, to unix.Sockaddr) error {
	raw, err := sock.SyscallConn()
	if err != nil {
		return err
	}
	sock.SetWriteDeadline(time.Now().Add(guest.DialTimeout))
	stop := c.onCancel(func() { sock.SetWriteDeadline(time.Unix(1, 0)) })
	waited := raw.Write(func(fd uintptr) bool {
		err = unix.Connect(int(fd), to)
		return err != unix.EINPROGRESS && err != unix.EALREADY && err != unix.EINTR
	})
	switch {
	case !stop():
		return errCanceled
	case waited != nil:
		return unix.ETIMEDOUT
	case err != nil && err != unix.EISCONN:
		return err
	}
	return sock.SetWriteDeadline(time.Time{})
}

// notSelf refuses a socket that met itself: where nothing listens, the kernel may choose the same port for it, and both ends are then one
// (a simultaneous open, RFC 9293, section 3.5).
func notSelf(fd int, port uint16) error {
	own, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		if own.Port != int(port) {
			return nil
		}
	case *unix.SockaddrInet6:
		if own.Port != int(port) {
			return nil
		}
	}
	return unix.ECONNREFUSED
}

// onCancel calls f when the host has canceled the call. stop waits for f, and is false if it was called.
func (c *call) onCancel(f func()) (stop func() bool) {
	over, ended := make(chan struct{}), make(chan bool, 1)
	go func() {
		select {
		case <-c.canceled():
			f()
			ended <- false
		case <-over:
			ended <- true
		}
	}()
	return func() bool {
		close(over)
		return <-ended
	}
}

// relay carries the bytes of a connection until both halves have ended, or one has failed. Where the host goes without ending its half, or
// takes no more, the program sees a reset and not an end.
func (c *call) relay(sock *os.File) {
	stop := c.onCancel(func() {
		sock.SetReadDeadline(time.Unix(1, 0))
		sock.SetWriteDeadline(time.Now().Add(dialLinger))
	})
	defer stop()
	var up sync.WaitGroup
	up.Go(func() {
		if copyBytes(sock, c.st) != nil {
			resets(sock)
			return
		}
		control(sock, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
	})
	if copyBytes(c.st, sock) == nil {
		c.st.CloseWrite()
	} else if !c.isCanceled() {
		c.st.Reset()
	}
	up.Wait()
}

func (c *call) isCanceled() bool {
	select {
	case <-c.canceled():
		return true
	default:
		return false
	}
}

// copyBytes copies until the end of from.
func copyBytes(to io.Writer, from io.Reader) error {
	buf := make([]byte, dialBuffer)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// resets makes Close reset the connection, and the other direction end now.
func resets(sock *os.File) {
	control(sock, func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
}

func control(sock *os.File, f func(fd int) error) {
	if raw, err := sock.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { f(int(fd)) }) // an error: the connection is over already
	}
}
