package engine

import (
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// capture keeps the first and the last half of what one stream carries, each of half the cap, and counts the rest. Its memory is
// bounded by the cap whatever is written, and grows only as bytes come.
type capture struct {
	headMax, tailMax int

	head  []byte
	tail  []byte // a ring once it holds tailMax bytes
	at    int    // where the ring's oldest byte is
	total int64  // bytes written
}

func newCapture(limit int64) *capture {
	return &capture{headMax: int(limit - limit/2), tailMax: int(limit / 2)}
}

func (c *capture) write(p []byte) {
	c.total += int64(len(p))
	if room := c.headMax - len(c.head); room > 0 {
		n := min(room, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	if len(p) >= c.tailMax { // all of the ring is overwritten
		c.tail = append(c.tail[:0], p[len(p)-c.tailMax:]...)
		c.at = 0
		return
	}
	if room := c.tailMax - len(c.tail); room > 0 {
		n := min(room, len(p))
		c.tail = append(c.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.at:], p)
		p = p[n:]
		c.at = (c.at + n) % c.tailMax
	}
}

// captured returns what was kept. Where bytes were dropped, the cut falls between characters, so that a cut never makes
// valid UTF-8 invalid.
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

// splitAtEnd returns how many bytes at the end of b begin a character that is not complete.
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

// splitAtStart returns how many bytes at the start of b are the rest of a character.
func splitAtStart(b []byte) int {
	for n := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	return 0
}
