package intercept

import (
	"encoding/binary"
	"errors"
	"net"
	"time"
)

// The begin of a connection, the size of the head of a frame, and kinds of frames (RFC 9113, sections 3.4, 4.1 and 6).
const (
	clientPreface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHead         = 9 // bytes
	frameData         = 0
	frameHeaders      = 1
	frameWindowUpdate = 8
	frameContinuation = 9
)

// The CPU time that frames of HTTP/2 are charged beside their bytes if they carry no part of a body. Programs send one
// for some seconds, for some bytes of an answer, or for a request, so a flood of them waits long before it takes a CPU.
const (
	controlTime = 20 * time.Microsecond
	headersTime = 40 * time.Microsecond // its fields may be a hundred times as long (HPACK)
	windowTime  = 4 * time.Microsecond  // WINDOW_UPDATE: some clients send two for each 4 KiB of an answer
)

// frames is the sandbox's end of a connection of HTTP/2, inside TLS. It charges the frames that carry no part of a
// body. It hides the state of TLS from http.Server, which would speak HTTP/1 on a connection with such a state that
// is no *tls.Conn.
type frames struct {
	net.Conn
	conn *Conn

	preface int // bytes of clientPreface that were read
	head    [frameHead]byte
	have    int // bytes of head
	left    int // bytes of the frame after its head
}

var errPreface = errors.New("it does not speak HTTP/2")

func (f *frames) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if !f.follow(b[:n]) {
		return 0, errPreface
	}
	return n, err
}

// follow follows the bytes of a connection. It returns false for one that does not begin as HTTP/2.
func (f *frames) follow(b []byte) bool {
	for len(b) > 0 {
		if f.preface < len(clientPreface) {
			if b[0] != clientPreface[f.preface] {
				return false
			}
			f.preface, b = f.preface+1, b[1:]
			continue
		}
		if f.left > 0 {
			n := min(f.left, len(b))
			f.left, b = f.left-n, b[n:]
			continue
		}
		n := copy(f.head[f.have:], b)
		f.have, b = f.have+n, b[n:]
		if f.have == frameHead {
			f.have, f.left = 0, int(binary.BigEndian.Uint32(f.head[:])>>8)
			f.conn.spend(frameTime(f.head[3], f.left))
		}
	}
	return true
}

// frameTime is what a frame of a length is charged.
func frameTime(kind byte, length int) time.Duration {
	switch {
	case kind == frameData && length > 0:
		return 0
	case kind == frameHeaders, kind == frameContinuation:
		return headersTime
	case kind == frameWindowUpdate:
		return windowTime
	}
	return controlTime
}
