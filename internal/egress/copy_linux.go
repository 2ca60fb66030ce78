package egress

import (
	"context"
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// copyRaw passes the bytes of a connection to take, until the end, at a pace. For a TCP connection it holds a buffer
// only while there is something to read and the gate need not rest. ctx must end with the connection.
func copyRaw(ctx context.Context, p *pace, from net.Conn, take func([]byte) error) error {
	conn, ok := from.(*net.TCPConn)
	if !ok {
		return copyPlain(ctx, p, from, take)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return errReset
	}
	var end error
	for end == nil {
		if p.wait(ctx) != nil {
			return errReset
		}
		if raw.Read(func(fd uintptr) bool {
			end = copyReady(int(fd), p, take)
			return !errors.Is(end, unix.EAGAIN)
		}) != nil {
			return errReset // it was closed
		}
	}
	if errors.Is(end, io.EOF) {
		return nil
	}
	return end
}

// copyReady passes on what can be read, until the gate must rest, and returns why it stopped: nil is a rest.
func copyReady(fd int, p *pace, take func([]byte) error) error {
	b := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(b)
	for !p.inDebt() {
		n, err := unix.Read(fd, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return err
		case err != nil:
			return errReset
		case n == 0:
			return io.EOF
		}
		if err := take(b[:n]); err != nil {
			return err
		}
	}
	return nil
}

// copyPlain is copyRaw for the connections of another dialer.
func copyPlain(ctx context.Context, p *pace, from io.Reader, take func([]byte) error) error {
	b := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(b)
	for p.wait(ctx) == nil {
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
	return errReset
}

// sendDatagram sends a datagram. One that the host cannot send at once is lost, as on any link: the stack would queue
// any number of empty ones behind it.
func sendDatagram(to net.Conn, b []byte) error {
	c, ok := to.(*net.UDPConn)
	if !ok {
		_, err := to.Write(b)
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		_, failed = unix.Write(int(fd), b)
		return !errors.Is(failed, unix.EINTR)
	})
	if errors.Is(failed, unix.EAGAIN) || errors.Is(failed, unix.ENOBUFS) {
		failed = nil
	}
	return errors.Join(err, failed)
}
