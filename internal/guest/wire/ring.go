package wire

// ringLeast is the first size of a ring; it doubles as data comes, up to what the credit allows.
const ringLeast = 1 << 10

// ring is a queue of bytes with one writer and one reader. Positions count all bytes since the beginning. The writer may fill
// what it reserved, and the reader may copy what it peeked at, without a lock: growing only reads the old buffer, and neither
// touches the other's part.
type ring struct {
	buf    []byte // its length is a power of two
	rd, wr uint64
}

func (r *ring) len() int { return int(r.wr - r.rd) }

// reserve returns room for n bytes behind the last one, in two pieces where it wraps around.
func (r *ring) reserve(n int) (first, second []byte) {
	if need := r.len() + n; need > len(r.buf) {
		r.grow(need)
	}
	return r.at(r.wr, n)
}

func (r *ring) grow(need int) {
	size := max(ringLeast, len(r.buf))
	for size < need {
		size *= 2
	}
	old := *r
	r.buf = make([]byte, size)
	oldFirst, oldSecond := old.peek(old.len())
	first, second := r.at(r.rd, old.len())
	// The wrap is elsewhere in the larger buffer, so the pieces do not match.
	n := copy(first, oldFirst)
	if n < len(oldFirst) {
		copy(second, oldFirst[n:])
		copy(second[len(oldFirst)-n:], oldSecond)
		return
	}
	k := copy(first[n:], oldSecond)
	copy(second, oldSecond[k:])
}

// at returns the n bytes at a position.
func (r *ring) at(pos uint64, n int) (first, second []byte) {
	if n == 0 {
		return nil, nil
	}
	i := int(pos & uint64(len(r.buf)-1))
	if i+n <= len(r.buf) {
		return r.buf[i : i+n], nil
	}
	return r.buf[i:], r.buf[:n-(len(r.buf)-i)]
}

// commit makes the n bytes that were reserved last part of the queue.
func (r *ring) commit(n int) { r.wr += uint64(n) }

// peek returns the first n bytes of the queue.
func (r *ring) peek(n int) (first, second []byte) { return r.at(r.rd, n) }

// consume drops the first n bytes of the queue.
func (r *ring) consume(n int) { r.rd += uint64(n) }
