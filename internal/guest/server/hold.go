package server

import (
	"errors"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ErrHeld is returned by Serve when a host asked to close the listener for a while; see guest.Hold.
var ErrHeld = errors.New("the listener is held")

// listening is one call of Serve.
type listening struct {
	held bool          // guarded by the server's mu
	over chan struct{} // closed when Serve returns
}

func (s *Server) isHeld(l *listening) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.held
}

// connPoll is how often hold checks whether closed connections have ended.
const connPoll = time.Millisecond

// hold serves Hold. It answers once the listener and all other connections are closed, and then closes its own.
func (s *Server) hold(c *call) error {
	if s.cfg.Hold == nil {
		return &guest.Failed{Kind: sandbox.Unsupported, Op: "hold", Msg: "this guest did not make its socket"}
	}
	s.mu.Lock()
	var calls []*listening
	for closer, l := range s.listeners {
		l.held = true
		closer.Close()
		delete(s.listeners, closer)
		calls = append(calls, l)
	}
	s.mu.Unlock()
	for _, l := range calls {
		<-l.over
	}
	s.closeConns(c.conn)
	for !s.isAlone(c.conn) {
		select {
		case <-c.session.Done():
			return errCanceled
		case <-time.After(connPoll):
		}
	}
	if err := s.cfg.Hold(); err != nil {
		return &guest.Failed{Kind: sandbox.Internal, Op: "hold", Msg: err.Error()}
	}
	err := c.answer(&guest.Done{})
	c.session.Flush()
	c.conn.rw.Close()
	return err
}

// isAlone reports whether there is no other connection.
func (s *Server) isAlone(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.conns[c]
	return is && len(s.conns) == 1
}
