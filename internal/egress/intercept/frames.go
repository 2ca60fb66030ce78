package intercept

import (
	"encoding/binary"
	"errors"
	"net"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
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
	headersTime = 40 * time.Microsecond // beside its fields, which may be a thousand times as long (HPACK)
	windowTime  = 4 * time.Microsecond  // WINDOW_UPDATE: some clients send two for each 4 KiB of an answer
)

// frames is the sandbox's end of a connection of HTTP/2, inside TLS. It charges the frames that carry no part of a
// body, and the fields of heads as net/http decodes them, also of those that it refuses below the handler. It hides the
// state of TLS from http.Server, which would speak HTTP/1 on a connection with such a state that is no *tls.Conn.
type frames struct {
	net.Conn
	conn *Conn

	preface int // bytes of clientPreface that were read
	head    [frameHead]byte
	have    int // bytes of head
	left    int // bytes of the frame after its head
	block   block
}

var errFrames = errors.New("it does not speak HTTP/2")

func (f *frames) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if !f.follow(b[:n]) {
		return 0, errFrames
	}
	return n, err
}

// follow follows the bytes of a connection. It returns false for one that does not begin as HTTP/2, or whose heads
// cannot be decoded.
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
			f.left -= n
			if !f.block.read(b[:n], f.left) {
				return false
			}
			b = b[n:]
			continue
		}
		n := copy(f.head[f.have:], b)
		f.have, b = f.have+n, b[n:]
		if f.have == frameHead {
			f.have, f.left = 0, int(binary.BigEndian.Uint32(f.head[:])>>8)
			f.conn.spend(frameTime(f.head[3], f.left))
			f.block.begin(f.conn, f.head[3], f.head[4])
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

// block is the fields of a head, in one frame or several.
type block struct {
	fields *hpack.Decoder
	size   int // of the fields of this head up to now

	in     bool // the frame has a part of it
	ends   bool // and it is the last one
	padded bool // the next byte is the length of the padding
	before int  // bytes before the part
	after  int  // bytes of padding behind it
}

// Flags of HEADERS (RFC 9113, section 6.2).
const (
	endHeaders = 0x04
	padded     = 0x08
	priority   = 0x20
)

// begin begins a frame.
func (k *block) begin(c *Conn, kind, flags byte) {
	k.in, k.ends = kind == frameHeaders || kind == frameContinuation, flags&endHeaders != 0
	k.padded, k.before, k.after = false, 0, 0
	if kind != frameHeaders {
		return
	}
	if k.fields == nil {
		k.fields = hpack.NewDecoder(4<<10, func(f hpack.HeaderField) { k.charge(c, f) }) // the size of net/http's
		k.fields.SetMaxStringLength(2 * sniff.MaxHead)
	}
	k.size, k.padded = 0, flags&padded != 0
	if flags&priority != 0 {
		k.before = 5
	}
}

// read reads bytes of a frame, which has so many left. It returns false for a field that net/http cannot decode either.
func (k *block) read(b []byte, left int) bool {
	if !k.in || k.fields == nil {
		return true
	}
	if k.padded {
		k.padded, k.after, b = false, int(b[0]), b[1:]
	}
	skipped := min(k.before, len(b))
	k.before, b = k.before-skipped, b[skipped:]
	_, err := k.fields.Write(b[:max(0, len(b)-max(0, k.after-left))])
	if err == nil && left == 0 && k.ends {
		err = k.fields.Close()
	}
	return err == nil
}

// charge charges a field, up to the size of a head at which net/http reads no more of them.
func (k *block) charge(c *Conn, f hpack.HeaderField) {
	if k.size > sniff.MaxHead {
		return
	}
	k.size += int(f.Size())
	cost := time.Duration(f.Size()) * headTime
	if f.Name == "trailer" || f.Name == "cookie" {
		cost *= 3 // net/http keeps each name, and sends each cookie as a field
	}
	c.spend(cost)
}
