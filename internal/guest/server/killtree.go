package server

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// Bounds of the search for an execution's processes, which may fork faster than the guest finds them.
const (
	killTimeout = 2 * time.Second
	killPause   = time.Millisecond
)

// kill signals the started process. It returns false once that process is reaped.
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

// killMember signals another process of the execution through a pidfd, so that the signal reaches no later process.
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

// beginKill delays the bound on the process's output while a goroutine kills processes of the execution, until endKill.
// Called with mu held.
func (p *process) beginKill() {
	p.kills++
	p.awaitOutput()
}

func (p *process) endKill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kills--
	p.awaitOutput()
}

// killTree kills all processes of the execution, waits until the guest has reaped its own, and reports whether there
// was one. It stops all of them first, as a running one could fork into a dead one's place. A program may hide from the
// search; isolation does not depend on it.
func (s *Server) killTree(p *process) (some bool) { return s.killTreeOf(p, nil) }

// killTreeOf is killTree of an execution of which some processes are known, by their start.
func (s *Server) killTreeOf(p *process, known map[int]uint64) (some bool) {
	p.mu.Lock()
	p.beginKill()
	p.mu.Unlock()
	defer p.endKill()
	if known == nil {
		known = make(map[int]uint64)
	}
	for end := time.Now().Add(killTimeout); ; time.Sleep(killPause) {
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

// halt stops newly found processes of the execution until a search finds no further one, and returns the last result.
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

func (s *Server) killAll(c *call) error {
	list := s.table.all()
	for _, p := range list {
		p.mu.Lock()
		p.signaled, p.sentKill = p.signaled || !p.reaped, true
		p.beginKill()
		p.mu.Unlock()
		defer p.endKill()
	}
	if os.Getpid() == 1 {
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
		if err := c.pause(killPause); err != nil {
			return err
		}
	}
}
