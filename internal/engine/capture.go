package engine

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// capture keeps the start and the end of one stream, each up to half the limit, and counts the rest. Its memory never
// exceeds the limit, and grows only as bytes arrive.
type capture struct {
	headMax, tailMax int

	head  [][]byte // in pieces, so that a large one is copied once, at the end
	held  int      // bytes in head
	tail  []byte   // a ring buffer once it holds tailMax bytes
	at    int      // index of the ring's oldest byte
	total int64    // bytes written
}

// Sizes of the pieces of a head: they double.
const (
	pieceLeast = 512
	pieceMost  = 32 << 10
)

func newCapture(limit int64) *capture {
	return &capture{headMax: int(limit - limit/2), tailMax: int(limit / 2)}
}

// replay takes a piece of an earlier server's output, which ends at an offset of the stream; what lies before it and is
// missing was dropped.
func (c *capture) replay(p []byte, end uint64) {
	c.skip(int64(end) - int64(len(p)))
	c.write(p)
}

// skip counts the bytes up to an offset as dropped. What comes after them belongs to the end of the stream.
func (c *capture) skip(offset int64) {
	if offset > c.total {
		c.total, c.headMax, c.tail, c.at = offset, c.held, c.tail[:0], 0
	}
}

func (c *capture) write(p []byte) {
	c.total += int64(len(p))
	if room := c.headMax - c.held; room > 0 {
		n := min(room, len(p))
		c.keep(p[:n])
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

// keep adds to the head, which has room for p.
func (c *capture) keep(p []byte) {
	size := pieceLeast
	if last := len(c.head) - 1; last >= 0 {
		piece := c.head[last]
		n := min(cap(piece)-len(piece), len(p))
		c.head[last] = append(piece, p[:n]...)
		c.held += n
		p = p[n:]
		size = min(2*cap(piece), pieceMost)
	}
	if len(p) == 0 {
		return
	}
	if size = min(size, c.headMax-c.held); size > len(p) {
		c.head = append(c.head, append(make([]byte, 0, size), p...))
	} else {
		c.head = append(c.head, bytes.Clone(p)) // nothing is cleared first
	}
	c.held += len(p)
}

// doubled returns b with room for n more bytes, of at most most in all. The runtime would add a quarter each time, so
// that a large output were copied five times over.
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
	newest, oldest := c.tail[:c.at], c.tail[c.at:]
	if c.total == int64(c.held+len(c.tail)) {
		switch {
		case c.total == 0:
			return sandbox.Captured{}
		case len(c.head) == 1 && len(c.tail) == 0:
			return sandbox.Captured{Head: c.head[0]}
		}
		// Join clears nothing first
		return sandbox.Captured{Head: bytes.Join(append(slices.Clip(c.head), oldest, newest), nil)}
	}
	head, tail := bytes.Join(c.head, nil), slices.Concat(oldest, newest)
	head = head[:len(head)-splitAtEnd(head)]
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
