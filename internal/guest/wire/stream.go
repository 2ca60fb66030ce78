package wire

import (
	"io"
	"sync"
	"time"
)

// Stream is one call on a session: bytes in both directions, each with its own credit and its own end. One goroutine
// may read while another writes.
type Stream struct {
	s    *Session
	done chan struct{}

	// Guarded by the session's mu.
	id         uint32 // 0 until the first data is sent
	err        error  // the stream was reset, or its session ended
	ring       receiving
	allowance  int  // data bytes that the peer may still send
	unpaid     int  // data bytes read whose credit is not returned yet
	credit     int  // data bytes that this side may still send
	ended      bool // the peer has sent its last data
	finished   bool // this side has sent its last data
	discarding bool // this side wants no more data
	readable   sync.Cond
	writable   sync.Cond
	reading    deadline
	writing    deadline

	body []byte // of the last message; belongs to the reader
}

// receiving is the received data of a stream that is not yet read.
type receiving struct {
	Ring
	filling  bool // a frame is being received
	trimming bool // trim will be called
}

func newStream(s *Session, id uint32) *Stream {
	st := &Stream{s: s, id: id, done: make(chan struct{}), allowance: InitialCredit, credit: InitialCredit}
	st.readable.L, st.writable.L = &s.mu, &s.mu
	return st
}

// Done is closed when the stream was reset or its session has ended, but not when both sides ended normally.
func (st *Stream) Done() <-chan struct{} { return st.done }

// Read reads data. io.EOF means that the peer has sent its last; after a reset by the peer, earlier data is still read.
func (st *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s := st.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for st.ring.Len() == 0 && st.err == nil && !st.ended && !st.discarding && !st.reading.passed {
		if st.ring.Cap() > ringKept && !st.ring.trimming {
			st.ring.trimming = true
			time.AfterFunc(ringIdle, st.trim)
		}
		st.readable.Wait()
	}
	n := min(len(p), st.ring.Len())
	if n == 0 || st.reading.passed {
		switch {
		case st.reading.passed:
			return 0, ErrDeadline
		case st.discarding:
			return 0, ErrReset
		case st.ended:
			return 0, io.EOF
		}
		return 0, cut(st.err) // a truncated connection is not the end of a stream
	}
	first, second := st.ring.At(st.ring.Start(), n)
	s.mu.Unlock()
	copy(p[copy(p, first):], second)
	s.mu.Lock()
	if st.discarding {
		return 0, ErrReset // reset during the copy
	}
	st.ring.Consume(n)
	st.repay(n)
	st.freeEnded()
	return n, nil
}

// freeEnded frees the empty ring of a stream whose peer sends no more: a timer may hold the stream. Called with mu
// held.
func (st *Stream) freeEnded() {
	if st.ended && st.ring.Len() == 0 {
		st.ring.Trim()
	}
}

// trim frees the ring if it is empty: the reader of a quiet stream may wait for long.
func (st *Stream) trim() {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.ring.trimming = false; st.ring.Len() == 0 && !st.ring.filling {
		st.ring.Trim()
	}
}

// repay returns credit for data that was read, in large pieces. Called with mu held.
func (st *Stream) repay(n int) {
	st.unpaid += n
	if st.unpaid < InitialCredit/2 || st.ended || st.err != nil {
		return
	}
	u := uint32(st.unpaid)
	st.s.control(st.id, frameCredit, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	st.allowance += st.unpaid
	st.unpaid = 0
}

// Write sends data, waiting for credit.
func (st *Stream) Write(p []byte) (int, error) {
	left, err := st.send(sending{}, p)
	return len(p) - left, err
}

// sending says how to send.
type sending struct {
	last  bool // then end this side
	later bool // with the next frames of the session, or after laterMost
	now   bool // or fail with ErrBusy, and send nothing
}

// send sends the parts as one piece, cut into frames if necessary. After an error, left bytes are not sent.
func (st *Stream) send(how sending, parts ...[]byte) (left int, err error) {
	s := st.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range parts {
		left += len(p)
	}
	if how.now && (left > st.credit || len(s.out) >= outLimit) {
		return left, ErrBusy
	}
	for left > 0 {
		if err := st.await(); err != nil {
			return left, err
		}
		if err := st.begin(); err != nil {
			return left, err
		}
		n := min(left, st.credit, MaxFrame)
		s.out = appendHeader(s.out, st.id, frameData, n)
		for k := n; k > 0; {
			if len(parts[0]) == 0 {
				parts = parts[1:]
				continue
			}
			m := min(k, len(parts[0]))
			s.out = append(s.out, parts[0][:m]...)
			parts[0] = parts[0][m:]
			k -= m
		}
		st.credit -= n
		if left -= n; left > 0 {
			s.wake.Signal()
		}
	}
	if how.last {
		err = st.finish()
	} else {
		err = st.sendable()
	}
	if how.later {
		s.flushLater()
	} else {
		s.flush()
	}
	return 0, err
}

// await waits until one more byte may be sent. Called with mu held.
func (st *Stream) await() error {
	for {
		if err := st.sendable(); err != nil {
			return err
		}
		switch {
		case st.writing.passed:
			return ErrDeadline
		case st.credit == 0:
			st.writable.Wait()
		case len(st.s.out) >= outLimit:
			st.s.space.Wait()
		default:
			return nil
		}
	}
}

func (st *Stream) sendable() error {
	switch {
	case st.err != nil:
		return st.err
	case st.s.err != nil:
		return st.s.err
	case st.finished:
		return ErrClosed
	}
	return nil
}

// begin gives the stream its id, in the order of first frames. Called with mu held.
func (st *Stream) begin() error {
	if st.id != 0 {
		return nil
	}
	s := st.s
	if s.last == 1<<32-1 {
		return ErrExhausted
	}
	s.last++
	st.id = s.last
	delete(s.fresh, st)
	s.streams[st.id] = st
	return nil
}

// finish ends this side. Called with mu held.
func (st *Stream) finish() error {
	if err := st.sendable(); err != nil {
		return err
	}
	if st.id == 0 {
		if err := st.begin(); err != nil {
			return err
		}
		st.s.queue(st.id, frameData)
	}
	st.finished = true
	st.s.queue(st.id, frameEnd)
	if st.ended {
		delete(st.s.streams, st.id)
	}
	return nil
}

// CloseWrite ends this side: it has sent its last data.
func (st *Stream) CloseWrite() error {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	err := st.finish()
	st.s.flush()
	return err
}

// Reset ends the stream at once, in both directions. Unread data is dropped.
func (st *Stream) Reset() {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	st.reset()
}

// reset is Reset with mu held.
func (st *Stream) reset() {
	if st.err == nil && st.id != 0 && !(st.ended && st.finished) {
		st.s.control(st.id, frameReset)
	}
	st.discarding, st.ring.Ring = true, Ring{}
	st.abort(ErrReset)
}

// Close ends a finished stream: it ends this side and discards what the peer may still send. A peer that still has data
// gets a reset.
func (st *Stream) Close() {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.finished && st.ended || st.err != nil {
		return
	}
	if st.s.side == Host && st.finished {
		// The answer has arrived and the guest's end follows: no frame is needed.
		st.discarding, st.ring.Ring = true, Ring{}
		return
	}
	if st.id == 0 {
		st.abort(ErrReset)
		return
	}
	if !st.finished {
		st.finish()
		st.s.wake.Signal()
	}
	if !st.ended {
		st.reset()
	}
}

// abort wakes all waiters of the stream and removes it from its session. Called with mu held.
func (st *Stream) abort(err error) {
	if st.err != nil {
		return
	}
	st.err = err
	close(st.done)
	delete(st.s.streams, st.id)
	delete(st.s.fresh, st)
	st.readable.Broadcast()
	st.writable.Broadcast()
	st.s.space.Broadcast()
}

// Buffered returns how much data is received and not yet read.
func (st *Stream) Buffered() int {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	return st.ring.Len()
}
