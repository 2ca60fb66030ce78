package server

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

const maxSignal = 64

// Bounds of the hunt for the processes of an execution, which may fork faster than they are found.
const (
	huntMost  = 2 * time.Second
	huntPause = time.Millisecond
)

// kill sends a signal to the started process. It is false where that one is reaped.
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

// killMember sends a signal to another process of the execution, by a descriptor of it, so that the signal meets the process
// that belongs to the execution or none.
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
		return unix.ESRCH // another one by now; if it is of the execution it is found again
	}
	err = unix.PidfdSendSignal(fd, sig, nil, 0)
	if err == unix.ENOSYS || err == unix.EPERM { // a filter may know the one call and not the other
		return syscall.Kill(m.pid, sig)
	}
	return err
}

// signalTree sends a signal to all processes of the execution and says whether there was one.
func (s *Server) signalTree(p *process, sig syscall.Signal) bool {
	if sig == syscall.SIGKILL {
		return s.killTree(p)
	}
	members, _ := s.members(p, nil) // before the started process can end and break a chain of parents
	some, _ := p.kill(sig)
	for _, m := range members {
		if s.killMember(p, m, sig) == nil {
			some = true
		}
	}
	return some
}

// hunt says that processes of the execution are about to be killed, until hunted is called as often. Called with mu held.
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

// killTree ends all processes of the execution, waits until those that are the guest's to reap are reaped, and says whether
// there was one. They are stopped first, all of them, as one that still runs could fork into the room that a dead one leaves.
// A program may hide from it; that is what the walls are for.
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

// halt stops the processes of the execution that were not known, until a look finds no further one, and returns what the last one found.
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

// zombies says whether the reaper has work to do.
func (s *Server) zombies() bool {
	if !s.cfg.Init {
		return false
	}
	pid, err := waitid(unix.P_ALL, 0, unix.WNOHANG)
	return err == nil && pid != 0
}

// expire is called when the deadline has passed.
func (p *process) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped || p.s.isEnded() {
		return
	}
	p.timedOut = true
	sig := p.killSignal
	if sig == 0 || sig == syscall.SIGKILL {
		p.endTree()
		return
	}
	p.s.goes(func() { p.s.signalTree(p, sig) })
	time.AfterFunc(p.grace, func() { // also where the started process itself ended at once
		p.mu.Lock()
		defer p.mu.Unlock()
		p.endTree()
	})
}

// endTree ends all processes of the execution. An exit record that is not complete yet waits for it. Called with mu held.
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

// signalGroup sends a signal to the group that the started process leads. While that one is not reaped, the group's id is its own.
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

// endAll kills every execution, and drops the records of those that are not to be kept.
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

// killEveryone kills all processes of the sandbox until there is none, not even a zombie.
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
