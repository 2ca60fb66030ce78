package terminal

import (
	"io"
	"unicode/utf8"
)

// Sanitize wraps a terminal so that output from a sandbox cannot control it: escape sequences can set its title, fill
// its clipboard and make it type (CVE-2003-0063 and others since). Colours and clearing a line pass. Other writers get
// every byte unchanged.
func Sanitize(w io.Writer) io.Writer {
	if !Is(w) {
		return w
	}
	return &sanitizer{w: w}
}

// maxSequence limits the bytes of an incomplete escape sequence.
const maxSequence = 64

// sanitizer replaces control characters, except those of plain text.
type sanitizer struct {
	w    io.Writer
	held []byte // an incomplete escape sequence or character
}

const replacement = "\uFFFD"

func (t *sanitizer) Write(data []byte) (int, error) {
	in := append(t.held, data...)
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		size, ok, complete := safePrefix(in)
		if !complete && len(in) < maxSequence {
			break
		}
		if ok {
			out = append(out, in[:size]...)
		} else {
			out = append(out, replacement...)
		}
		in = in[size:]
	}
	t.held = append([]byte(nil), in...)
	if _, err := t.w.Write(out); err != nil {
		return 0, err
	}
	return len(data), nil
}

// safePrefix measures the first unit of in: a safe character or sequence (ok), or one unsafe byte or character. It is
// incomplete if more bytes could change the verdict.
func safePrefix(in []byte) (size int, ok, complete bool) {
	c := in[0]
	switch {
	case c == '\n' || c == '\r' || c == '\t' || c == '\b':
		return 1, true, true
	case c == 0x1b:
		return colourSequence(in)
	case c < 0x20 || c == 0x7f:
		return 1, false, true
	case c < utf8.RuneSelf:
		return 1, true, true
	case !utf8.FullRune(in):
		return 1, false, false
	}
	r, size := utf8.DecodeRune(in)
	if r == utf8.RuneError && size == 1 || r >= 0x80 && r < 0xa0 { // bad UTF-8, or a C1 control
		return size, false, true
	}
	return size, true, true
}

// colourSequence accepts ESC [ digits and semicolons, then m (colours) or K (clear the line).
func colourSequence(in []byte) (size int, ok, complete bool) {
	for i := 1; i < len(in) && i < maxSequence; i++ {
		c := in[i]
		switch {
		case i == 1 && c == '[':
		case i > 1 && (c >= '0' && c <= '9' || c == ';' || c == ':'):
		case i > 1 && (c == 'm' || c == 'K'):
			return i + 1, true, true
		default:
			return 1, false, true
		}
	}
	return 1, false, len(in) >= maxSequence
}
