package wire

import (
	"encoding/binary"
	"io"
)

// readLoop reads frames from the connection until it ends. It never waits for a stream: credit guarantees room.
func (s *Session) readLoop() {
	defer s.wg.Done()
	r := &reader{conn: s.conn}
	if s.direct != nil {
		r.conn = s.direct
	}
	for {
		if err := s.readFrame(r); err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *Session) readFrame(r *reader) error {
	var h [headerSize]byte
	if err := r.full(h[:1]); err != nil {
		return err // io.EOF here is a normal end
	}
	if err := r.full(h[1:]); err != nil {
		return cut(err)
	}
	id := binary.LittleEndian.Uint32(h[:4])
	kind, n := h[4], int(binary.LittleEndian.Uint32(h[4:])>>8)
	switch kind {
	case frameData:
		if n > MaxFrame {
			return ErrProtocol
		}
		return s.receive(r, id, n)
	case frameCredit:
		var p [4]byte
		if n != len(p) {
			return ErrProtocol
		}
		if err := r.full(p[:]); err != nil {
			return cut(err)
		}
		return s.credited(r, id, binary.LittleEndian.Uint32(p[:]))
	case frameEnd, frameReset:
		if n != 0 {
			return ErrProtocol
		}
		return s.ended(r, id, kind == frameReset)
	}
	return ErrProtocol
}

func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// find returns the stream with this id, nil if it is over. Called with mu held.
func (s *Session) find(id uint32) (*Stream, error) {
	if id == 0 || id > s.last {
		return nil, ErrProtocol // never opened
	}
	return s.streams[id], nil
}

// receive moves n data bytes from the connection into their stream.
func (s *Session) receive(r *reader, id uint32, n int) error {
	s.mu.Lock()
	if s.side == Guest && id > s.last {
		s.opened(id)
	}
	st, err := s.find(id)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	if st == nil || st.discarding {
		s.mu.Unlock()
		if err := r.wasted(n); err != nil {
			return err
		}
		return s.skip(r, n)
	}
	if st.ended || n > st.allowance {
		s.mu.Unlock()
		return ErrProtocol
	}
	if n == 0 {
		s.mu.Unlock()
		return r.wasted(n)
	}
	st.allowance -= n
	first, second := st.ring.Reserve(n)
	st.ring.filling = true
	s.mu.Unlock()

	// The reserved part of the ring belongs to this goroutine until it is committed.
	if err := r.full(first); err != nil {
		return cut(err)
	}
	if err := r.full(second); err != nil {
		return cut(err)
	}

	s.mu.Lock()
	st.ring.filling = false
	if !st.discarding {
		st.ring.Commit(n)
		st.readable.Signal()
	}
	s.mu.Unlock()
	return nil
}

func (s *Session) skip(r *reader, n int) error {
	if err := r.discard(n); err != nil {
		return cut(err)
	}
	return nil
}

// opened makes the stream that the host opened, unless there are too many. Called with mu held.
func (s *Session) opened(id uint32) {
	s.last = id
	if len(s.streams) >= MaxStreams || len(s.accepted) >= MaxStreams {
		s.control(id, frameReset)
		return
	}
	st := newStream(s, id)
	s.streams[id] = st
	s.accepted = append(s.accepted, st)
	s.arrival.Signal()
}

func (s *Session) credited(r *reader, id, more uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(id)
	if err == nil && (st == nil || more < leastCredit) {
		err = r.wasted(0)
	}
	if st == nil || err != nil {
		return err
	}
	if uint64(st.credit)+uint64(more) > maxCredit {
		return ErrProtocol
	}
	st.credit += int(more)
	st.writable.Broadcast()
	return nil
}

func (s *Session) ended(r *reader, id uint32, reset bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(id)
	if err == nil && st == nil {
		err = r.wasted(0)
	}
	if st == nil {
		return err
	}
	if reset {
		st.abort(ErrReset)
		return nil
	}
	if st.ended {
		return ErrProtocol
	}
	st.ended = true
	st.freeEnded()
	st.readable.Broadcast()
	if st.finished {
		delete(s.streams, id)
	}
	return nil
}
