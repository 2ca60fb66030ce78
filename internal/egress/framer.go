package egress

import "bytes"

const maxChunkLine = 4 << 10 // bytes of a chunk's size with extensions, or of a trailer field

// framer follows one direction of an HTTP/1 connection: head, body, head, body.
type framer struct {
	head []byte // an incomplete head
	in   section
	left int64 // bytes of the body or of the chunk
	line []byte
	halt bool // set by ends: nothing is followed after this head
	// ends is called with each whole head, and says how its body is framed.
	ends func(head []byte) (body, error)
	// over is called at the end of each body.
	over func()
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

// feed follows b, and returns how much of what came is now known to be whole heads and parts of bodies: those bytes may pass on. If heads
// came in parts, held are the earlier parts, which come before.
func (f *framer) feed(b []byte) (held []byte, n int, err error) {
	for n < len(b) && err == nil && !f.halt {
		switch f.in {
		case inHead:
			var size int
			if size, err = f.feedHead(b[n:]); err != nil {
				return held, n, err
			}
			if size < 0 {
				return held, n, nil
			}
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
			n++
		}
	}
	return held, n, err
}

// feedHead takes up to the end of a head, and returns how many bytes of b that is, or -1 if the head goes on.
func (f *framer) feedHead(b []byte) (int, error) {
	before := len(f.head)
	whole := b
	if before > 0 {
		whole = append(f.head, b...)
	}
	if end := headEnd(whole, before); end >= 0 {
		if end > maxHead {
			return 0, errHead
		}
		framed, err := f.ends(bytes.TrimLeft(whole[:end], "\r\n"))
		if err != nil {
			return 0, err
		}
		f.begin(framed)
		f.head = whole[:before]
		return end - before, nil
	}
	if len(whole) > maxHead {
		return 0, errHead
	}
	if before == 0 {
		whole = bytes.Clone(b) // b is the caller's
	}
	f.head = whole
	return -1, nil
}

// headEnd returns where the empty line after a head ends, or -1. Empty lines before a head are not its end (RFC 9112, section 2.2).
func headEnd(b []byte, before int) int {
	start := len(b) - len(bytes.TrimLeft(b, "\r\n"))
	from := max(start, before-3)
	if i := bytes.Index(b[from:], []byte("\r\n\r\n")); i >= 0 {
		return from + i + 4
	}
	return -1
}

func (f *framer) begin(b body) {
	switch {
	case b.chunked:
		f.in = inChunkSize
	case b.length < 0:
		f.in = inRest
	case b.length == 0:
		f.over()
	default:
		f.in, f.left = inBody, b.length
	}
}

func (f *framer) bodyEnds() {
	if f.in == inChunk {
		f.in = inChunkEnd
		return
	}
	f.in = inHead
	f.over()
}

// feedLine takes one byte of a line of the chunked coding (RFC 9112, section 7.1).
func (f *framer) feedLine(c byte) error {
	f.line = append(f.line, c)
	if len(f.line) > maxChunkLine {
		return errBody
	}
	if c != '\n' {
		return nil
	}
	line, ok := bytes.CutSuffix(f.line, []byte("\r\n"))
	if !ok || bytes.ContainsAny(line, "\r\x00") {
		return errBody
	}
	f.line = f.line[:0]
	switch f.in {
	case inChunkEnd:
		f.in = inChunkSize
		if len(line) > 0 {
			return errBody
		}
	case inTrailer:
		if len(line) == 0 {
			f.in = inHead
			f.over()
		}
	case inChunkSize:
		size, ok := parseHex(line)
		if !ok {
			return errBody
		}
		if f.in, f.left = inChunk, size; size == 0 {
			f.in = inTrailer
		}
	}
	return nil
}

func parseHex(line []byte) (n int64, ok bool) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	if len(digits) == 0 || len(digits) > 15 {
		return 0, false
	}
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | int64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | int64(c-'a'+10)
		case c >= 'A' && c <= 'F':
			n = n<<4 | int64(c-'A'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
