package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest/nowait"
)

// Side is the role of a session on its connection.
type Side uint8

const (
	Host Side = iota
	Guest
)

const (
	MaxFrame      = 64 << 10  // payload of one frame
	InitialCredit = 256 << 10 // data bytes that a new stream may carry in each direction without more credit
	MaxStreams    = 4096      // open streams of one connection; the guest resets further ones, the host opens none
	MaxMessage    = 1 << 20   // body of one message

	maxCredit   = 1 << 30   // total credit that a peer may give
	outLimit    = 64 << 10  // queued frames before senders wait
	controlSlop = 256 << 10 // further control frames; exceeded only if the peer does not read its connection
)

var (
	ErrClosed    = errors.New("wire: session closed")
	ErrReset     = errors.New("wire: stream reset")
	ErrProtocol  = errors.New("wire: peer broke the protocol")
	ErrExhausted = errors.New("wire: no more streams on this connection")
	ErrTooLong   = errors.New("wire: message too long")
	ErrBusy      = errors.New("wire: the peer must read first")
	ErrDeadline  = errors.New("wire: deadline passed")
)

// A frame's header: stream id uint32, kind uint8, payload length uint24, little endian.
const headerSize = 8

const (
	frameData = iota
	frameCredit
	frameEnd
	frameReset
)

// Session carries streams over one connection. Its two goroutines end when the connection does; Close waits for them.
type Session struct {
	conn io.ReadWriteCloser
	side Side
	wg   sync.WaitGroup
	done chan struct{}

	mu       sync.Mutex // guards all below, and the state of the streams
	err      error
	streams  map[uint32]*Stream
	fresh    map[*Stream]struct{} // opened here, without an id until their first data
	last     uint32               // the highest stream id so far
	accepted []*Stream
	arrival  sync.Cond // signals that accepted grew
	out      []byte    // frames for the writer
	rest     []byte    // what a sender could not write without waiting: the writer's, before out
	spare    []byte
	writing  bool // a sender or the writer writes
	direct   *nowait.File
	late     *time.Timer // ends the wait of frames that go with the next ones; nil before the first
	waiting  bool        // late runs
	wake     sync.Cond   // signals that out or rest is not empty
	space    sync.Cond   // signals that the writer took out, or is idle
}

// NewSession runs the multiplexer on conn, which it takes over.
func NewSession(conn io.ReadWriteCloser, side Side) *Session {
	s := &Session{conn: conn, side: side, done: make(chan struct{}), streams: make(map[uint32]*Stream),
		fresh: make(map[*Stream]struct{})}
	s.arrival.L, s.wake.L, s.space.L = &s.mu, &s.mu, &s.mu
	s.direct = nowait.New(conn)
	s.wg.Add(2)
	go s.readLoop()
	go s.writeLoop()
	return s
}

// Open returns a new stream. The peer sees it with the first data.
func (s *Session) Open() (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if s.side != Host || len(s.streams)+len(s.fresh) >= MaxStreams || s.last == 1<<32-1 {
		return nil, ErrExhausted
	}
	st := newStream(s, 0)
	s.fresh[st] = struct{}{}
	return st, nil
}

// Accept waits for the host's next stream.
func (s *Session) Accept() (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.accepted) == 0 && s.err == nil {
		s.arrival.Wait()
	}
	if len(s.accepted) == 0 {
		return nil, s.err
	}
	st := s.accepted[0]
	s.accepted = s.accepted[1:]
	return st, nil
}

// Done is closed when the session has ended, by either side.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended: io.EOF if the peer closed the connection, ErrClosed after Close, nil while it is
// open.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Flush waits until everything sent so far is written to the connection, or the session ends.
func (s *Session) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && (s.writing || len(s.out) > 0) {
		s.wake.Signal()
		s.space.Wait()
	}
}

// Close ends the session and its streams, closes the connection and waits for the session's goroutines.
func (s *Session) Close() error {
	s.fail(ErrClosed)
	s.wg.Wait()
	return nil
}

// fail ends the session with this reason, once.
func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

// failLocked is fail with mu held.
func (s *Session) failLocked(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	if s.waiting {
		s.late.Stop()
	}
	close(s.done)
	for _, st := range s.streams {
		st.abort(err)
	}
	for st := range s.fresh {
		st.abort(err)
	}
	s.arrival.Broadcast()
	s.wake.Broadcast()
	s.space.Broadcast()
	s.conn.Close() // wakes both loops; Close of a connection does not block
}

// writeLoop writes frames to the connection that no sender writes. Frames queued during a write go out together with
// the next one.
func (s *Session) writeLoop() {
	defer s.wg.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for s.rest == nil && (len(s.out) == 0 || s.writing) && s.err == nil {
			s.wake.Wait()
		}
		if s.err != nil {
			return
		}
		buf := s.rest
		if s.rest = nil; buf == nil {
			buf = s.take()
		}
		s.mu.Unlock()
		_, err := s.conn.Write(buf)
		s.mu.Lock()
		s.wrote(buf)
		if err != nil {
			s.failLocked(err)
			return
		}
	}
}

// take takes the queued frames for a write. Called with mu held.
func (s *Session) take() []byte {
	buf := s.out
	s.out, s.spare, s.writing = s.spare[:0], nil, true
	s.space.Broadcast()
	if s.waiting {
		s.late.Stop()
		s.waiting = false
	}
	return buf
}

// wrote ends a write. Called with mu held.
func (s *Session) wrote(buf []byte) {
	s.spare, s.writing = buf[:0], false
	if len(s.out) == 0 {
		s.space.Broadcast()
	}
}

// flush writes the queued frames as far as the connection takes them without waiting, and leaves the rest to the
// writer. So most frames need no change of goroutine. Called with mu held, which it gives up meanwhile.
func (s *Session) flush() {
	switch {
	case s.writing || len(s.out) == 0 || s.err != nil:
		return // who writes sees to the rest
	case s.direct == nil:
		s.wake.Signal()
		return
	}
	buf := s.take()
	s.mu.Unlock()
	n, err := s.direct.TryWrite(buf)
	s.mu.Lock()
	switch {
	case err != nil:
		s.wrote(buf)
		s.failLocked(err)
		return
	case n < len(buf):
		s.rest = buf[n:]
	default:
		s.wrote(buf)
	}
	if s.rest != nil || len(s.out) > 0 {
		s.wake.Signal()
	}
}

// laterMost is how long frames wait for the next ones, if they need not arrive before.
var laterMost = time.Millisecond

// flushLater writes the queued frames with the next ones, or after laterMost. Called with mu held.
func (s *Session) flushLater() {
	switch {
	case s.waiting || s.writing || s.err != nil:
		return
	case s.late == nil:
		s.late = time.AfterFunc(laterMost, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.waiting = false
			s.wake.Signal()
		})
	default:
		s.late.Reset(laterMost)
	}
	s.waiting = true
}

func appendHeader(b []byte, id uint32, kind uint8, n int) []byte {
	b = binary.LittleEndian.AppendUint32(b, id)
	return binary.LittleEndian.AppendUint32(b, uint32(kind)|uint32(n)<<8)
}

// control sends a frame that needs no credit and never waits. Called with mu held.
func (s *Session) control(id uint32, kind uint8, payload ...byte) {
	s.queue(id, kind, payload...)
	s.wake.Signal()
}

// queue is control without a wake-up of the writer. Called with mu held.
func (s *Session) queue(id uint32, kind uint8, payload ...byte) {
	if len(s.out) > outLimit+MaxFrame+controlSlop {
		s.failLocked(ErrProtocol) // the peer keeps sending without reading
	}
	if s.err != nil {
		return
	}
	s.out = append(appendHeader(s.out, id, kind, len(payload)), payload...)
}
