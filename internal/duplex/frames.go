package duplex

import (
	"encoding/binary"
	"time"

	"golang.org/x/net/http2/hpack"
)

// The begin of a connection, the size of the head of a frame, kinds of frames and the flags of HEADERS (RFC 9113,
// sections 3.4, 4.1, 6.2 and 6.10).
const (
	clientPreface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHead         = 9 // bytes
	FrameHeaders      = 1
	FrameContinuation = 9

	endHeaders = 0x04
	padded     = 0x08
	priority   = 0x20
)

// fieldTime is the CPU time of a byte of a field.
const fieldTime = 20 * time.Nanosecond

// Frames follows the bytes that a client sends on a connection of HTTP/2, inside TLS. It reports the fields of heads as
// net/http decodes them (RFC 7541), also of those that it refuses below the handler: a byte may stand for 4 KiB.
type Frames struct {
	Most     int                         // bytes of a head that net/http reads; fields beyond it are not reported
	OnFields func(work time.Duration)    // is called with the CPU time of fields
	OnFrame  func(kind byte, length int) // is called with each head of a frame; may be nil

	preface int // bytes of clientPreface that were read
	head    [frameHead]byte
	have    int // bytes of head
	left    int // bytes of the frame after its head

	fields *hpack.Decoder
	size   int // of the fields of this head up to now

	part   bool // the frame has a part of a head
	last   bool // and it is the last one
	padded bool // the next byte is the length of the padding
	before int  // bytes before the part
	after  int  // bytes of padding behind it
}

// Follow follows further bytes. It returns false for a connection that does not begin as HTTP/2, or whose heads
// net/http cannot decode either.
func (f *Frames) Follow(b []byte) bool {
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
			if f.part && !f.readPart(b[:n]) {
				return false
			}
			b = b[n:]
			continue
		}
		n := copy(f.head[f.have:], b)
		f.have, b = f.have+n, b[n:]
		if f.have == frameHead {
			f.have, f.left = 0, int(binary.BigEndian.Uint32(f.head[:])>>8)
			f.begin(f.head[3], f.head[4])
		}
	}
	return true
}

// begin begins a frame.
func (f *Frames) begin(kind, flags byte) {
	if f.OnFrame != nil {
		f.OnFrame(kind, f.left)
	}
	f.part, f.last = kind == FrameHeaders || kind == FrameContinuation && f.fields != nil, flags&endHeaders != 0
	f.padded, f.before, f.after = false, 0, 0
	if kind != FrameHeaders {
		return
	}
	if f.fields == nil {
		f.fields = hpack.NewDecoder(4<<10, f.field) // the size of net/http's
		f.fields.SetMaxStringLength(2 * f.Most)
	}
	f.size, f.padded = 0, flags&padded != 0
	if flags&priority != 0 {
		f.before = 5
	}
}

// readPart reads bytes of a frame that has a part of a head.
func (f *Frames) readPart(b []byte) bool {
	if f.padded {
		f.padded, f.after, b = false, int(b[0]), b[1:]
	}
	skipped := min(f.before, len(b))
	f.before, b = f.before-skipped, b[skipped:]
	_, err := f.fields.Write(b[:max(0, len(b)-max(0, f.after-f.left))])
	if err == nil && f.left == 0 && f.last {
		err = f.fields.Close()
	}
	return err == nil
}

func (f *Frames) field(one hpack.HeaderField) {
	if f.size > f.Most {
		return
	}
	f.size += int(one.Size())
	work := time.Duration(one.Size()) * fieldTime
	if one.Name == "trailer" || one.Name == "cookie" {
		work *= 3 // net/http keeps each name, and sends each cookie as a field
	}
	f.OnFields(work)
}
