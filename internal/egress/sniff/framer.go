package sniff

import (
	"bytes"
	"strconv"
)

const maxChunkLine = 4 << 10 // bytes of a chunk size with extensions, or of a trailer field

// Framer follows one direction of an HTTP/1 connection: head, body, head, body.
type Framer struct {
	// OnHead is called with each whole head, and returns the framing of its body.
	OnHead func(head []byte) (Body, error)
	// OnBodyEnd is called at the end of each body. May be nil.
	OnBodyEnd func()
	// Parsed counts the bytes that were read one by one, all but those of bodies. The caller may reset it.
	Parsed int
	// Halted may be set by OnHead: nothing is followed after this head until it is reset.
	Halted bool

	head []byte // an incomplete head, after empty lines (RFC 9112, section 2.2)
	from int    // where it begins in head
	in   section
	left int64 // bytes of the body or of the chunk
	line []byte
}

type section uint8

const (
	inHead section = iota
	inBody
	inChunkSize
	inChunk
	inChunkEnd // the CR LF after a chunk's bytes
	inTrailer
	inRest // up to the end of the connection
)

// Pending reports whether a head has begun and is incomplete.
func (f *Framer) Pending() bool { return len(f.head) > f.from }

// Feed follows b, and returns how many of its bytes belong to whole heads and to bodies: these may pass on. If heads
// came in parts, held are the earlier parts, which precede b.
func (f *Framer) Feed(b []byte) (held []byte, n int, err error) {
	for n < len(b) && err == nil && !f.Halted {
		switch f.in {
		case inHead:
			var size int
			if size, err = f.feedHead(b[n:]); err != nil {
				return held, n, err
			}
			if size < 0 {
				f.Parsed += len(b) - n
				return held, n, nil
			}
			f.Parsed += size
			if n == 0 {
				held = f.head
			}
			f.head = nil
			n += size
		case inBody, inChunk:
			size := min(f.left, int64(len(b)-n))
			n += int(size)
			if f.left -= size; f.left == 0 {
				f.bodyEnds()
			}
		case inRest:
			n = len(b)
		default:
			err = f.feedLine(b[n])
			f.Parsed++
			n++
		}
	}
	return held, n, err
}

// feedHead consumes up to the end of a head, and returns how many bytes of b that is, or -1 if the head is incomplete.
func (f *Framer) feedHead(b []byte) (int, error) {
	before := len(f.head)
	whole := b
	if before > 0 {
		whole = append(f.head, b...)
	}
	for f.from < len(whole) && (whole[f.from] == '\r' || whole[f.from] == '\n') {
		f.from++
	}
	if end := headEnd(whole, max(f.from, before-3)); end >= 0 {
		if end > MaxHead {
			return 0, ErrHead
		}
		framed, err := f.OnHead(whole[f.from:end])
		if err != nil {
			return 0, err
		}
		f.begin(framed)
		f.head, f.from = whole[:before], 0
		return end - before, nil
	}
	if len(whole) > MaxHead {
		return 0, ErrHead
	}
	if before == 0 {
		whole = bytes.Clone(b) // b is the caller's
	}
	f.head = whole
	return -1, nil
}

// headEnd returns where the empty line after a head ends, from a position on, or -1.
func headEnd(b []byte, from int) int {
	if i := bytes.Index(b[from:], []byte("\r\n\r\n")); i >= 0 {
		return from + i + 4
	}
	return -1
}

func (f *Framer) begin(b Body) {
	switch {
	case b.chunked:
		f.in = inChunkSize
	case b.Length < 0:
		f.in = inRest
	case b.Length == 0:
		f.endMessage()
	default:
		f.in, f.left = inBody, b.Length
	}
}

func (f *Framer) bodyEnds() {
	if f.in == inChunk {
		f.in = inChunkEnd
		return
	}
	f.endMessage()
}

func (f *Framer) endMessage() {
	f.in = inHead
	if f.OnBodyEnd != nil {
		f.OnBodyEnd()
	}
}

// feedLine consumes one byte of a line of the chunked coding (RFC 9112, section 7.1).
func (f *Framer) feedLine(c byte) error {
	f.line = append(f.line, c)
	if len(f.line) > maxChunkLine {
		return ErrBody
	}
	if c != '\n' {
		return nil
	}
	line, ok := bytes.CutSuffix(f.line, []byte("\r\n"))
	if !ok || bytes.ContainsAny(line, "\r\x00") {
		return ErrBody
	}
	f.line = f.line[:0]
	switch f.in {
	case inChunkEnd:
		f.in = inChunkSize
		if len(line) > 0 {
			return ErrBody
		}
	case inTrailer:
		if len(line) == 0 {
			f.endMessage()
		}
	case inChunkSize:
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseUint(string(digits), 16, 60)
		if err != nil || len(digits) > 15 {
			return ErrBody
		}
		if f.in, f.left = inChunk, int64(size); size == 0 {
			f.in = inTrailer
		}
	}
	return nil
}
