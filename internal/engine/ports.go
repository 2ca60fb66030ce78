package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of open connections to the ports of living sandboxes. Each may hold half a megabyte of data that one side does
// not read.
const (
	MaxPortConnections = 128  // of one sandbox
	DefaultPorts       = 2048 // of all: the default of LivingConfig.Ports
)

// DialPort connects to a TCP port in the sandbox: to a program there that listens on 127.0.0.1, ::1 or all addresses.
// The sandbox needs no network for that. The connection has CloseWrite. While one is open, the sandbox is not idle;
// with the sandbox, it ends.
//
// Errors: Invalid for a port out of range; Unavailable where nothing listens, with syscall.ECONNREFUSED in the chain;
// Busy at the limit of connections; NotFound where the sandbox has ended; Unsupported by a guest of an older version.
func (s *Sandbox) DialPort(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, sandbox.Invalidf("port", "%d is not from 1 to 65535", port)
	}
	if err := s.enterPort(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, guest.DialTimeout)
	defer cancel()
	var conn *client.Conn
	err := s.call(ctx, func(c *client.Client) (err error) {
		conn, err = c.Dial(ctx, uint16(port))
		return err
	})
	if err != nil {
		s.leavePort()
		if ended := s.Ended(); ended != nil {
			return nil, ended
		}
		return nil, portError(port, err)
	}
	return &portConn{Conn: conn, leave: sync.OnceFunc(s.leavePort)}, nil
}

func portError(port int, err error) error {
	e := &sandbox.Error{Kind: sandbox.KindOf(err), Op: fmt.Sprintf("port %d", port), Err: err}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Msg, e.Fix = "nothing listens there in the sandbox",
			fmt.Sprintf("start a server in it that listens on port %d of 127.0.0.1, ::1 or all addresses", port)
		e.Kind, e.Err = sandbox.Unavailable, syscall.ECONNREFUSED
	case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, context.DeadlineExceeded):
		e.Msg, e.Fix = "the program there does not accept connections", "check the program, or restart it"
		e.Kind, e.Err = sandbox.Unavailable, syscall.ETIMEDOUT
	case e.Kind == sandbox.Quota:
		e.Msg, e.Fix = "the sandbox has no descriptor or memory left for a connection", "close others"
	case e.Kind == sandbox.Unsupported:
		e.Msg, e.Fix = "the sandbox was made by an older version", "create it again"
	}
	return e
}

// enterPort counts a connection, which is use of the sandbox.
func (s *Sandbox) enterPort() error {
	if err := s.Ended(); err != nil {
		return err
	}
	if !s.engine.living.ports.Take(s.owner, 1) {
		return &sandbox.Error{Kind: sandbox.Busy, Op: "port",
			Msg: "too many connections to ports of sandboxes are open", Fix: "close some of them, or try again later"}
	}
	s.mu.Lock()
	full := s.timers.ports >= MaxPortConnections
	if !full {
		s.addUse(&s.timers.ports, 1)
	}
	s.mu.Unlock()
	if full {
		s.engine.living.ports.Give(s.owner, 1)
		return &sandbox.Error{Kind: sandbox.Busy, Op: "port",
			Msg: fmt.Sprintf("%d connections to ports of this sandbox are open", MaxPortConnections),
			Fix: "close some of them, or try again later"}
	}
	return nil
}

func (s *Sandbox) leavePort() {
	s.engine.living.ports.Give(s.owner, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addUse(&s.timers.ports, -1)
}

// portConn is a connection to a port, counted until it is closed.
type portConn struct {
	*client.Conn
	leave func()
}

func (c *portConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
