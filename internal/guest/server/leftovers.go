package server

import (
	"os"
	"time"
)

// countLeftovers counts the processes that the program left behind, and makes the exit record wait for it. It returns
// false if there is nothing to wait for. A program's helpers often end by themselves after it, so they have Drain to do
// so. Called with mu held.
func (p *process) countLeftovers() bool {
	if p.looked || p.forgotten || p.s.countLeft(p) == 0 {
		return false
	}
	p.looked = true
	p.pending++
	end := p.spawned.Add(p.wall).Add(p.drain)
	started := p.s.run(func() {
		n := p.s.countLeft(p)
		for ; n > 0 && time.Now().Before(end); n = p.s.countLeft(p) {
			time.Sleep(leftPause)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.left = n
		p.ended()
	})
	if !started { // the server is closing
		p.pending--
	}
	return started
}

const leftPause = 5 * time.Millisecond

// outside is the parent of a process that entered the sandbox from outside.
const outside = 0

// countLeft counts the processes that still run after an execution: all of them if it is the only execution, otherwise
// those of its session. It reads only their /proc/PID/stat.
func (s *Server) countLeft(p *process) uint32 {
	if !s.cfg.Init || s.alone() {
		return 0
	}
	only, n := len(s.table.all()) == 1, uint32(0)
	for _, st := range s.proc.list() {
		if st.pid != os.Getpid() && st.parent != outside && !st.zombie &&
			(only || p.session != 0 && st.session == p.session) {
			n++
		}
	}
	return n
}

// countTasks counts the processes and threads of the sandbox, without the guest's. At the limit, a program may hang
// because it could not start one.
func (s *Server) countTasks(p *process) (n uint32) {
	shared := int(p.user.UID) == os.Geteuid() // then the limit includes the guest (RLIMIT_NPROC, setrlimit(2))
	for _, st := range s.proc.list() {
		if s.cfg.Init && (st.pid != os.Getpid() || shared) && !st.zombie &&
			(st.parent != outside || st.pid == p.pid || st.pid == os.Getpid()) {
			n += uint32(max(st.threads, 1))
		}
	}
	return n
}
