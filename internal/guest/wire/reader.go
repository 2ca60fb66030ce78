package wire

import (
	"io"
	"time"
)

// Sizes of the buffer between the connection and the streams. It grows once a read fills it.
const (
	readBufferLeast = 4 << 10
	readBufferMost  = 64 << 10
)

// reader reads frames from a connection with few reads.
type reader struct {
	conn   io.Reader
	buf    []byte
	lo, hi int // buf[lo:hi] is read and not yet consumed
	waste  waste
}

// wasted counts a frame with n bytes that carries nothing. It fails after too many.
func (r *reader) wasted(n int) error {
	if r.waste.take(n, time.Now()) {
		return nil
	}
	return ErrProtocol
}

// fill reads once into the buffer, which is empty.
func (r *reader) fill() error {
	if r.hi == len(r.buf) && len(r.buf) < readBufferMost {
		r.buf = make([]byte, max(readBufferLeast, 4*len(r.buf)))
	}
	r.lo, r.hi = 0, 0
	n, err := r.conn.Read(r.buf)
	r.hi = n
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

func (r *reader) full(p []byte) error {
	for len(p) > 0 {
		if r.lo == r.hi {
			if err := r.fill(); err != nil {
				return err
			}
		}
		n := copy(p, r.buf[r.lo:r.hi])
		r.lo += n
		p = p[n:]
	}
	return nil
}

func (r *reader) discard(n int) error {
	for n > 0 {
		if r.lo == r.hi {
			if err := r.fill(); err != nil {
				return err
			}
		}
		k := min(n, r.hi-r.lo)
		r.lo += k
		n -= k
	}
	return nil
}
