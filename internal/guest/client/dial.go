package client

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
)

// Conn is a connection to a TCP port in the sandbox. Each half can end alone, as in TCP.
type Conn struct {
	st      *wire.Stream
	port    uint16
	reading sync.Mutex // a stream has one reader and one writer
	writing sync.Mutex

	mu     sync.Mutex // guards closed
	closed bool
}

// Dial connects to a TCP port of the sandbox's loopback. ctx only bounds the dialing. If nothing listens, the error
// wraps syscall.ECONNREFUSED. The caller closes the connection, which also ends with the client.
func (c *Client) Dial(ctx context.Context, port uint16) (*Conn, error) {
	k, err := c.begin(ctx, "guest: dial a port", &guest.Dial{Port: port}, false)
	if err != nil {
		return nil, err
	}
	if err := k.expect(&guest.Dialed{}); err != nil {
		k.abort()
		return nil, err
	}
	if err := k.unbind(); err != nil {
		return nil, err
	}
	return &Conn{st: k.st, port: port}, nil
}

// Read reads bytes of the program; io.EOF is the end of its half.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	n, err := c.st.Read(p)
	return n, c.explain("read", err)
}

// Write sends bytes to the program, as far as it reads.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.st.Write(p)
	return n, c.explain("write", err)
}

// CloseWrite ends this side's half. The program reads what was sent, and then its end.
func (c *Conn) CloseWrite() error { return c.explain("close", c.st.CloseWrite()) }

// Close ends the connection. The program still gets what was written, unless it takes too long to read it.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	_ = c.st.CloseWrite() // an error means that it has already ended
	c.st.Reset()
	return nil
}

// explain converts an error to one of package net.
func (c *Conn) explain(op string, err error) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	switch {
	case closed && err != nil:
		err = net.ErrClosed
	case errors.Is(err, wire.ErrDeadline):
		err = os.ErrDeadlineExceeded
	case errors.Is(err, wire.ErrClosed) && op != "read":
		err = syscall.EPIPE
	case errors.Is(err, wire.ErrReset), errors.Is(err, wire.ErrClosed), errors.Is(err, io.ErrUnexpectedEOF):
		err = syscall.ECONNRESET
	default:
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Addr: c.RemoteAddr(), Err: err}
}

// LocalAddr is not known: the guest chooses a port.
func (c *Conn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// RemoteAddr is the port of the sandbox's loopback.
func (c *Conn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(c.port)}
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	c.st.SetReadDeadline(t)
	c.st.SetWriteDeadline(t)
	return nil
}

// SetReadDeadline makes reads fail after t, also one that waits.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.st.SetReadDeadline(t)
	return nil
}

// SetWriteDeadline makes writes fail after t, also one that waits.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.st.SetWriteDeadline(t)
	return nil
}
