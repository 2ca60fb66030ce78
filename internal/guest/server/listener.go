package server

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ErrHeld is Serve's error after a host has closed the listener for a while; see guest.Hold.
var ErrHeld = errors.New("the listener is held")

type listening struct {
	held bool          // guarded by the server's mu
	over chan struct{} // closed when Serve returns
}

func (s *Server) isHeld(l *listening) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.held
}

// Serve accepts connections until the server ends. The descriptor must be non-blocking.
func (s *Server) Serve(listener *os.File) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	l := &listening{over: make(chan struct{})}
	defer close(l.over)
	s.mu.Lock()
	s.listeners[listener] = l
	over := s.end != ""
	s.mu.Unlock()
	if over {
		return nil
	}
	for {
		fd, err := accept(raw)
		switch {
		case s.isEnded():
			return nil
		case err != nil && s.isHeld(l):
			return ErrHeld
		case err == syscall.EMFILE || err == syscall.ENFILE || err == syscall.ENOMEM || err == syscall.ENOBUFS:
			time.Sleep(acceptPause)
		case err != nil:
			return err
		default:
			f := os.NewFile(uintptr(fd), "connection")
			if !s.run(func() { s.ServeConn(f) }) {
				f.Close()
			}
		}
	}
}

// acceptPause is the pause after an accept that failed for want of descriptors or memory.
const acceptPause = 10 * time.Millisecond

// accept waits for one connection. Package net would double the guest's size.
func accept(raw syscall.RawConn) (fd int, err error) {
	var errno syscall.Errno
	waiting := raw.Read(func(l uintptr) bool {
		for {
			var r uintptr
			r, _, errno = syscall.Syscall6(syscall.SYS_ACCEPT4, l, 0, 0, syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0,
				0)
			fd = int(r)
			if errno != syscall.EINTR && errno != syscall.ECONNABORTED {
				return errno != syscall.EAGAIN
			}
		}
	})
	if waiting != nil {
		return -1, waiting
	}
	if errno != 0 {
		return -1, errno
	}
	return fd, nil
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
