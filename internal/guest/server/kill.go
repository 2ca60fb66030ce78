package server

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxSignal = 64

// Limits on the search for an execution's processes, which may fork faster than they are found.
const (
	huntMost  = 2 * time.Second
	huntPause = time.Millisecond
)

// kill signals the started process. It returns false if that is reaped.
func (p *process) kill(sig syscall.Signal) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return false, nil
	}
	if sig == syscall.SIGKILL {
		p.sentKill = true
	}
	return true, syscall.Kill(p.pid, sig)
}

// killMember signals another process of the execution through a pidfd, so that no other process can be hit.
func (s *Server) killMember(p *process, m stat, sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		p.mu.Lock()
		p.sentKill = true
		p.mu.Unlock()
	}
	fd, err := unix.PidfdOpen(m.pid, 0) // Linux 5.3
	if err != nil {
		if err == unix.ESRCH {
			return err
		}
		return syscall.Kill(m.pid, sig)
	}
	defer unix.Close(fd)
	if now, ok := s.proc.stat(m.pid); ok && now.spawned != m.spawned {
		return unix.ESRCH // replaced; if it belongs to the execution, the next search finds it
	}
	err = unix.PidfdSendSignal(fd, sig, nil, 0)
	if err == unix.ENOSYS || err == unix.EPERM { // a seccomp filter may allow only one of the two calls
		return syscall.Kill(m.pid, sig)
	}
	return err
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

// hunt announces that processes of the execution are about to be killed; hunted ends it. Called with mu held.
func (p *process) hunt() {
	p.hunts++
	p.awaitOutput()
}

func (p *process) hunted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hunts--
	p.awaitOutput()
}

// killTree ends all processes of the execution, waits until the guest has reaped its own, and reports whether there was one.
// It stops all of them first, as a running one could fork into a dead one's place. A program may hide from the search;
// isolation does not depend on it.
func (s *Server) killTree(p *process) (some bool) {
	p.mu.Lock()
	p.hunt()
	p.mu.Unlock()
	defer p.hunted()
	known := make(map[int]uint64)
	for end := time.Now().Add(huntMost); ; time.Sleep(huntPause) {
		running, _ := p.kill(syscall.SIGSTOP)
		found, unclear := s.halt(p, known, end)
		for _, m := range found {
			s.killMember(p, m, syscall.SIGKILL)
		}
		p.kill(syscall.SIGKILL)
		if !running && len(found) == 0 && !unclear && !s.zombies() || time.Now().After(end) {
			return some
		}
		some = some || running || len(found) > 0
	}
}

// halt stops newly found processes of the execution until a search finds no more, and returns the last result.
func (s *Server) halt(p *process, known map[int]uint64, end time.Time) (found []stat, unclear bool) {
	for {
		found, unclear = s.members(p, known)
		fresh := false
		for _, m := range found {
			if spawned, ok := known[m.pid]; !ok || spawned != m.spawned {
				known[m.pid], fresh = m.spawned, true
				s.killMember(p, m, syscall.SIGSTOP)
			}
		}
		if !fresh || time.Now().After(end) {
			return found, unclear
		}
	}
}

// zombies reports whether the reaper has work to do.
func (s *Server) zombies() bool {
	if !s.cfg.Init {
		return false
	}
	pid, err := waitid(unix.P_ALL, 0, unix.WNOHANG)
	return err == nil && pid != 0
}

// expire is called after the deadline.
func (p *process) expire() {
	tasks := p.s.countTasks(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped || p.s.isEnded() {
		return
	}
	p.timedOut, p.tasks = true, tasks
	sig := p.killSignal
	if sig == 0 || sig == syscall.SIGKILL {
		p.endTree()
		return
	}
	p.s.goes(func() { p.s.signalTree(p, sig) })
	time.AfterFunc(p.grace, func() { // even if the started process itself ended at once
		p.mu.Lock()
		defer p.mu.Unlock()
		p.endTree()
	})
}

// endTree ends all processes of the execution. An incomplete exit record waits for it. Called with mu held.
func (p *process) endTree() {
	p.sentKill = true
	p.hunt()
	waits := p.exited == nil
	if waits {
		p.pending++
	}
	p.s.goes(func() {
		p.s.killTree(p)
		p.hunted()
		if waits {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ended()
		}
	})
}

// signal serves Signal.
func (s *Server) signal(c *call) error {
	var m guest.Signal
	if err := c.parse(&m); err != nil {
		return err
	}
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
		return &guest.Failed{Kind: sandbox.NotFound, Op: "signal " + m.ID, Errno: uint32(syscall.ESRCH), Msg: "the process is gone"}
	}
	return c.answer(&guest.Done{})
}

// signalGroup signals the group that the started process leads. Until that one is reaped, the group's id is not reused.
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

// endAll kills every execution, and drops all records except those to keep.
func (s *Server) endAll(keep func(*process) bool) {
	for _, p := range s.table.all() {
		if keep != nil && keep(p) {
			continue
		}
		p.mu.Lock()
		p.signaled = p.signaled || !p.reaped
		p.mu.Unlock()
		s.killTree(p)
		s.table.forget(p)
		p.discard()
	}
}

// killAll serves KillAll.
func (s *Server) killAll(c *call) error {
	list := s.table.all()
	for _, p := range list {
		p.mu.Lock()
		p.signaled, p.sentKill = p.signaled || !p.reaped, true
		p.hunt()
		p.mu.Unlock()
		defer p.hunted()
	}
	if s.self() == 1 {
		kill := s.killEveryone
		if s.cfg.Visited {
			kill = s.killAllButVisitors
		}
		if err := kill(c); err != nil {
			return err
		}
	} else {
		for _, p := range list {
			s.killTree(p)
		}
	}
	for _, p := range list {
		if !p.await(c, func() bool { return p.reaped }) {
			return errCanceled
		}
	}
	return c.answer(&guest.Done{})
}

// killEveryone kills all processes of the sandbox until none is left, not even a zombie.
func (s *Server) killEveryone(c *call) error {
	for {
		switch err := syscall.Kill(-1, syscall.SIGKILL); err {
		case syscall.ESRCH:
			return nil
		case nil:
		default:
			return failed("kill all", err.(syscall.Errno))
		}
		select {
		case <-c.canceled():
			return errCanceled
		case <-time.After(huntPause):
		}
	}
}
