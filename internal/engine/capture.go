package engine

import (
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// capture keeps the start and the end of one stream, each up to half the limit, and counts the rest. Its memory never exceeds the limit,
// and grows only as bytes arrive.
type capture struct {
	headMax, tailMax int

	head  []byte
	tail  []byte // a ring buffer once it holds tailMax bytes
	at    int    // index of the ring's oldest byte
	total int64  // bytes written
}

func newCapture(limit int64) *capture {
	return &capture{headMax: int(limit - limit/2), tailMax: int(limit / 2)}
}

// replay takes a piece of an earlier server's output, which ends at an offset of the stream; what lies before it and is missing was dropped.
func (c *capture) replay(p []byte, end uint64) {
	c.total = max(c.total, int64(end)-int64(len(p)))
	c.write(p)
}

func (c *capture) write(p []byte) {
	c.total += int64(len(p))
	if room := c.headMax - len(c.head); room > 0 {
		n := min(room, len(p))
		c.head = append(doubled(c.head, n, c.headMax), p[:n]...)
		p = p[n:]
	}
	if len(p) >= c.tailMax { // all of the ring is overwritten
		c.tail = append(c.tail[:0], p[len(p)-c.tailMax:]...)
		c.at = 0
		return
	}
	if room := c.tailMax - len(c.tail); room > 0 {
		n := min(room, len(p))
		c.tail = append(doubled(c.tail, n, c.tailMax), p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.at:], p)
		p = p[n:]
		c.at = (c.at + n) % c.tailMax
	}
}

// doubled returns b with room for n more bytes, of at most most in all. The runtime would add a quarter each time, so that a large output
// were copied five times over.
func doubled(b []byte, n, most int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	grown := make([]byte, len(b), min(max(2*cap(b), len(b)+n), most))
	copy(grown, b)
	return grown
}

// captured returns what was kept. It cuts between characters, so that valid UTF-8 stays valid.
func (c *capture) captured() sandbox.Captured {
	tail := make([]byte, 0, len(c.tail))
	tail = append(append(tail, c.tail[c.at:]...), c.tail[:c.at]...)
	if c.total == int64(len(c.head)+len(tail)) {
		return sandbox.Captured{Head: append(c.head, tail...)}
	}
	head := c.head[:len(c.head)-splitAtEnd(c.head)]
	tail = tail[splitAtStart(tail):]
	return sandbox.Captured{Head: head, Tail: tail, Dropped: c.total - int64(len(head)) - int64(len(tail))}
}

// splitAtEnd returns the length of an incomplete character at the end of b.
func splitAtEnd(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// splitAtStart returns how many bytes at the start of b continue a character.
func splitAtStart(b []byte) int {
	for n := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	return 0
}
