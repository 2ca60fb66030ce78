package wire

// ringLeast is the first size of a ring; it doubles as data comes, up to what its owner lets in.
const ringLeast = 1 << 10

// Ring is a queue of bytes with one writer. Positions count all bytes since the beginning. What the writer reserved it may
// fill, and what a reader looked up it may copy, while others use the ring, as long as the queue still holds those bytes:
// growing leaves the old buffer as it is. All calls are made under one lock of the owner. The zero value is empty.
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

// Reserve returns room for n bytes behind the last one, in two pieces where it wraps around.
func (r *Ring) Reserve(n int) (first, second []byte) {
	if need := r.Len() + n; need > len(r.buf) {
		r.resize(need)
	}
	return r.at(r.wr, n)
}

// resize gives the ring a buffer for so many bytes, which are not fewer than it holds.
func (r *Ring) resize(need int) {
	size := ringLeast
	for size < need {
		size *= 2
	}
	old := *r
	r.buf = make([]byte, size)
	for pos := r.rd; pos < r.wr; { // the wrap is elsewhere in the new buffer, so the pieces do not match
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

// Commit makes the first n bytes that were reserved last part of the queue.
func (r *Ring) Commit(n int) { r.wr += uint64(n) }

// At returns the n bytes at a position, all of which the queue holds, in two pieces where they wrap around.
func (r *Ring) At(pos uint64, n int) (first, second []byte) { return r.at(pos, n) }

// Consume drops the first n bytes of the queue.
func (r *Ring) Consume(n int) { r.rd += uint64(n) }

// Trim gives memory back that the bytes in the queue do not need. It is for a queue that nobody writes to any more.
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
