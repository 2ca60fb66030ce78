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
	dialLinger = 2 * time.Second // how long the program may take to read what a gone host has sent
)

// dial serves Dial. It connects only to the loopback of the sandbox's own network namespace.
func (s *Server) dial(c *call, m *guest.Dial) error {
	if m.Port == 0 {
		return &guest.Failed{Kind: sandbox.Invalid, Op: "port", Msg: "port 0 is not valid"}
	}
	v4 := unix.SockaddrInet4{Port: int(m.Port), Addr: [4]byte{127, 0, 0, 1}}
	v6 := unix.SockaddrInet6{Port: int(m.Port), Addr: [16]byte{15: 1}}
	sock, err := c.connect(unix.AF_INET, &v4, m.Port)
	if err == unix.ECONNREFUSED {
		if other, err6 := c.connect(unix.AF_INET6, &v6, m.Port); err6 == nil { // otherwise the sandbox may lack IPv6
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
	if err := c.Send(&guest.Dialed{}); err != nil {
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
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // the host sends data in full
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

func (c *call) await(sock *os.File, to unix.Sockaddr) error {
	raw, err := sock.SyscallConn()
	if err != nil {
		return err
	}
	sock.SetWriteDeadline(time.Now().Add(guest.DialTimeout))
	stop := c.OnCancel(func() { sock.SetWriteDeadline(time.Unix(1, 0)) })
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

// notSelf refuses a socket that is connected to itself: if nothing listens, the kernel may choose the same port for the
// socket (a simultaneous open, RFC 9293, section 3.5).
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

// relay copies a connection's bytes until both halves have ended, or one has failed. If the host disappears without
// ending its half, or stops reading, the program sees a reset and not an end.
func (c *call) relay(sock *os.File) {
	stop := c.OnCancel(func() {
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
	} else if c.Wanted() == nil {
		c.st.Reset()
	}
	up.Wait()
}

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
