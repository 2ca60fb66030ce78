package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
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
	spare    []byte
	writing  bool
	wake     sync.Cond // signals that out is not empty
	space    sync.Cond // signals that the writer took out, or is idle
}

// NewSession runs the multiplexer on conn, which it takes over.
func NewSession(conn io.ReadWriteCloser, side Side) *Session {
	s := &Session{conn: conn, side: side, done: make(chan struct{}), streams: make(map[uint32]*Stream),
		fresh: make(map[*Stream]struct{})}
	s.arrival.L, s.wake.L, s.space.L = &s.mu, &s.mu, &s.mu
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

// writeLoop writes frames to the connection. Frames queued during a write go out together with the next one.
func (s *Session) writeLoop() {
	defer s.wg.Done()
	for {
		s.mu.Lock()
		for len(s.out) == 0 && s.err == nil {
			s.wake.Wait()
		}
		if s.err != nil {
			s.mu.Unlock()
			return
		}
		buf := s.out
		s.out, s.spare, s.writing = s.spare[:0], nil, true
		s.space.Broadcast()
		s.mu.Unlock()

		_, err := s.conn.Write(buf)

		s.mu.Lock()
		s.spare, s.writing = buf[:0], false
		if len(s.out) == 0 {
			s.space.Broadcast()
		}
		s.mu.Unlock()
		if err != nil {
			s.fail(err)
			return
		}
	}
}

func appendHeader(b []byte, id uint32, kind uint8, n int) []byte {
	b = binary.LittleEndian.AppendUint32(b, id)
	return binary.LittleEndian.AppendUint32(b, uint32(kind)|uint32(n)<<8)
}

// control sends a frame that needs no credit and never waits. Called with mu held.
func (s *Session) control(id uint32, kind uint8, payload ...byte) {
	if len(s.out) > outLimit+MaxFrame+controlSlop {
		s.failLocked(ErrProtocol) // the peer keeps sending without reading
	}
	if s.err != nil {
		return
	}
	s.out = append(appendHeader(s.out, id, kind, len(payload)), payload...)
	s.wake.Signal()
}
