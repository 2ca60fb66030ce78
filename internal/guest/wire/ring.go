package wire

import "time"

// ringLeast is a ring's first size; it doubles as data comes, up to what its owner admits.
const ringLeast = 1 << 10

// A stream whose reader waits keeps a larger buffer than ringKept for ringIdle.
const (
	ringKept = 16 << 10
	ringIdle = time.Second
)

// Ring is a queue of bytes with one writer. Positions count all bytes since the beginning. The writer may fill what it
// reserved, and a reader may copy what it looked up, while others use the ring, as long as the queue still holds those
// bytes: growing leaves the old buffer unchanged. All calls need one lock of the owner. The zero value is empty.
type Ring struct {
	buf    []byte // its length is a power of two
	rd, wr uint64
}

// Len returns the number of bytes in the queue.
func (r *Ring) Len() int { return int(r.wr - r.rd) }

// Start returns the position of the oldest byte in the queue.
func (r *Ring) Start() uint64 { return r.rd }

// End returns the position after the newest.
func (r *Ring) End() uint64 { return r.wr }

// Reserve returns room for n bytes after the last one, in two pieces if it wraps around.
func (r *Ring) Reserve(n int) (first, second []byte) {
	if need := r.Len() + n; need > len(r.buf) {
		r.resize(need)
	}
	return r.at(r.wr, n)
}

// resize gives the ring a buffer for need bytes, at least as many as it holds.
func (r *Ring) resize(need int) {
	size := ringLeast
	for size < need {
		size *= 2
	}
	old := *r
	r.buf = make([]byte, size)
	for pos := r.rd; pos < r.wr; { // the new buffer wraps elsewhere, so the pieces differ
		from, _ := old.at(pos, int(r.wr-pos))
		to, _ := r.at(pos, int(r.wr-pos))
		pos += uint64(copy(to, from))
	}
}

// at returns the n bytes at a position.
func (r *Ring) at(pos uint64, n int) (first, second []byte) {
	if n == 0 {
		return nil, nil
	}
	i := int(pos & uint64(len(r.buf)-1))
	if i+n <= len(r.buf) {
		return r.buf[i : i+n], nil
	}
	return r.buf[i:], r.buf[:n-(len(r.buf)-i)]
}

// Commit adds the first n reserved bytes to the queue.
func (r *Ring) Commit(n int) { r.wr += uint64(n) }

// At returns the n bytes at a position, which the queue must hold, in two pieces if they wrap around.
func (r *Ring) At(pos uint64, n int) (first, second []byte) { return r.at(pos, n) }

// Consume drops the first n bytes of the queue.
func (r *Ring) Consume(n int) { r.rd += uint64(n) }

// Cap returns the bytes of the buffer.
func (r *Ring) Cap() int { return len(r.buf) }

// Trim frees memory that the queued bytes do not need. No reserved part may be in use.
func (r *Ring) Trim() {
	n := r.Len()
	if n == 0 {
		r.buf = nil
		return
	}
	if len(r.buf) <= ringLeast || n > len(r.buf)/2 {
		return
	}
	r.resize(n)
}
