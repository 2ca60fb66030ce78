package httpapi

import (
	"bufio"
	"encoding/binary"
	"net"

	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// framed is a response whose connection counts the frames of a WebSocket as work. One read of the connection may have
// hundreds, which package websocket handles before it returns: pongs, fragments, and what comes while it closes.
type framed struct{ *httpd.Response }

// Hijack hands over the connection, as that of Response.
func (f framed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := f.Response.Hijack()
	if both, ok := conn.(duplex.Conn); ok {
		conn = &framedConn{Conn: both, out: f.Response}
	}
	return conn, buffered, err
}

type framedConn struct {
	duplex.Conn
	out    *httpd.Response
	frames frames
}

func (c *framedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.out.Steps(c.frames.count(p[:n]))
	c.out.Work(n) // package websocket reads byte by byte while it closes
	return n, err
}

// frames finds the frames of a WebSocket that a client sends (RFC 6455, section 5.2).
type frames struct {
	head []byte // of the current frame, as far as it has come
	left uint64 // bytes of its payload that have not come
}

// count returns how many heads of frames end in p.
func (f *frames) count(p []byte) (n int) {
	for len(p) > 0 {
		if f.left > 0 {
			passed := min(f.left, uint64(len(p)))
			f.left -= passed
			p = p[passed:]
			continue
		}
		f.head = append(f.head, p[0])
		p = p[1:]
		if f.complete() {
			f.head = f.head[:0]
			n++
		}
	}
	return n
}

// complete reports whether the head is complete, and takes the length of the payload from it.
func (f *frames) complete() bool {
	if len(f.head) < 2 {
		return false
	}
	const mask = 4
	length := f.head[1] & 0x7f
	switch {
	case length == 126 && len(f.head) == 4+mask:
		f.left = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case length == 127 && len(f.head) == 10+mask:
		f.left = binary.BigEndian.Uint64(f.head[2:])
	case length < 126 && len(f.head) == 2+mask:
		f.left = uint64(length)
	default:
		return false
	}
	return true
}
