package server

import (
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxSignal = 64

func (s *Server) signal(c *call, m *guest.Signal) error {
	p, err := s.table.find(m.ID)
	if err != nil {
		return err
	}
	if m.Signal < 0 || m.Signal > maxSignal || m.Scope > guest.ScopeExecution {
		return invalid("signal "+m.ID, "there is no such signal or scope")
	}
	sig := syscall.Signal(m.Signal)
	if sig == syscall.SIGKILL {
		p.mu.Lock()
		p.signaled = p.signaled || !p.reaped
		p.mu.Unlock()
	}
	reached := false
	switch m.Scope {
	case guest.ScopeProcess:
		reached, err = p.kill(sig)
	case guest.ScopeGroup:
		reached, err = s.signalGroup(p, sig)
	case guest.ScopeExecution:
		reached = s.signalTree(p, sig)
	}
	switch {
	case err != nil:
		return failed("signal "+m.ID, err.(syscall.Errno))
	case !reached:
		return &guest.Failed{Kind: sandbox.NotFound, Op: "signal " + m.ID, Errno: uint32(syscall.ESRCH),
			Msg: "the process is gone"}
	}
	return c.answer(&guest.Done{})
}

// signalGroup signals the group that the started process leads. Until that process is reaped, the group's id is not
// reused.
func (s *Server) signalGroup(p *process, sig syscall.Signal) (bool, error) {
	p.mu.Lock()
	if !p.reaped && p.session == p.pid {
		defer p.mu.Unlock()
		if sig == syscall.SIGKILL {
			p.sentKill = true
		}
		return true, syscall.Kill(-p.pid, sig)
	}
	p.mu.Unlock()
	some, err := p.kill(sig)
	members, _ := s.members(p, nil)
	for _, m := range members {
		if m.group == p.pid && s.killMember(p, m, sig) == nil {
			some = true
		}
	}
	return some, err
}

// signalTree signals all processes of the execution and reports whether there was one.
func (s *Server) signalTree(p *process, sig syscall.Signal) bool {
	if sig == syscall.SIGKILL {
		return s.killTree(p)
	}
	members, _ := s.members(p, nil) // before the started process ends and a chain of parents breaks
	some, _ := p.kill(sig)
	for _, m := range members {
		if s.killMember(p, m, sig) == nil {
			some = true
		}
	}
	return some
}
