package server

import (
	"crypto/subtle"
	"encoding/binary"
	"io"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
)

type conn struct {
	rw    io.ReadWriteCloser
	calls sync.WaitGroup
}

// ServeConn serves one connection until it ends, and closes it. An error ends only this connection.
func (s *Server) ServeConn(rw io.ReadWriteCloser) {
	c := &conn{rw: rw}
	defer rw.Close()
	if !s.admit(c) {
		return
	}
	defer s.dismiss(c)
	late := time.AfterFunc(guest.PreambleTimeout, func() { rw.Close() })
	purpose, generation, ok := s.preamble(rw)
	if !ok || !late.Stop() {
		return
	}
	reply := binary.LittleEndian.AppendUint64([]byte(guest.MagicReply), generation)
	if _, err := rw.Write(reply); err != nil {
		return
	}
	switch purpose {
	case guest.PurposeAdopt:
		s.serveAdopt(rw)
		return
	case guest.PurposeLifeline:
		s.takeLifeline(rw)
		return
	}
	session := wire.NewSession(rw, wire.Guest)
	for {
		st, err := session.Accept()
		if err != nil {
			break
		}
		c.calls.Add(1)
		go func() {
			defer c.calls.Done()
			s.serveCall(c, session, st)
		}()
	}
	session.Close()
	c.calls.Wait() // the end of the session has canceled them
}

// admit counts the connection, unless there are too many.
func (s *Server) admit(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= guest.MaxConnections || s.end != "" {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) dismiss(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// closeConns closes all connections but one.
func (s *Server) closeConns(but *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c != but {
			c.rw.Close()
		}
	}
}

// preamble reads what a host sends first. Errors in it are not reported.
func (s *Server) preamble(r io.Reader) (purpose byte, generation uint64, ok bool) {
	var b [len(guest.Magic) + 1 + guest.KeySize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, 0, false
	}
	purpose = b[len(guest.Magic)]
	s.mu.Lock()
	same := subtle.ConstantTimeCompare(b[len(guest.Magic)+1:], s.key[:])
	generation = s.generation
	s.mu.Unlock()
	clear(b[len(guest.Magic)+1:])
	ok = same == 1 && string(b[:len(guest.Magic)]) == guest.Magic && purpose <= guest.PurposeLifeline
	return purpose, generation, ok
}
