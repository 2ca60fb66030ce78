package server

import (
	"os"
	"time"
)

// lookForLeft has the exit record wait until what the program left behind was counted, and is false where there is nothing to wait for.
// Helpers of a program end by themselves when they see that it is gone, so those have the time of Drain for it. Called with mu held.
func (p *process) lookForLeft() bool {
	if p.looked || p.forgotten || p.s.countLeft(p) == 0 {
		return false
	}
	p.looked = true
	p.pending++
	end := p.spawned.Add(p.wall).Add(p.drain)
	goes := p.s.goes(func() {
		n := p.s.countLeft(p)
		for ; n > 0 && time.Now().Before(end); n = p.s.countLeft(p) {
			time.Sleep(leftPause)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.left = n
		p.ended()
	})
	if !goes { // the server is closing
		p.pending--
	}
	return goes
}

// leftPause is between two looks at what was left.
const leftPause = 5 * time.Millisecond

// outside is the parent of a process that came in from outside of the sandbox.
const outside = 0

// countLeft counts the processes that still run after an execution: all of them where it is the only one that there is, else those of its
// session. It reads no more of each than its stat.
func (s *Server) countLeft(p *process) uint32 {
	if !s.cfg.Init || s.alone() {
		return 0
	}
	only, n := len(s.table.all()) == 1, uint32(0)
	for _, st := range s.proc.list() {
		if st.pid != os.Getpid() && st.parent != outside && !st.zombie && (only || p.session != 0 && st.session == p.session) {
			n++
		}
	}
	return n
}

// countTasks counts the processes and threads of the sandbox but the guest's own: a program that waits at its limit of them waits for one that
// could not be made.
func (s *Server) countTasks(p *process) (n uint32) {
	shared := int(p.user.UID) == os.Geteuid() // then the limit counts the guest too (RLIMIT_NPROC, setrlimit(2))
	for _, st := range s.proc.list() {
		if s.cfg.Init && (st.pid != os.Getpid() || shared) && !st.zombie && (st.parent != outside || st.pid == p.pid || st.pid == os.Getpid()) {
			n += uint32(max(st.threads, 1))
		}
	}
	return n
}
