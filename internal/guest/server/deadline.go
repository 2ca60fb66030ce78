package server

import (
	"syscall"
	"time"
)

// expire enforces the guest's clock of the time limit: it runs when Start.Deadline has passed. Package guest lists the
// other clocks.
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
	p.end(func() map[int]uint64 { return p.s.endGently(p, sig) })
}

// endGently sends a signal to all processes of the execution, and waits until they have ended or Start.Grace has
// passed. It returns those that it found: after the end of their parents a search may miss them.
func (s *Server) endGently(p *process, sig syscall.Signal) (known map[int]uint64) {
	known = map[int]uint64{}
	members, _ := s.members(p, nil) // before the started process ends and a chain of parents breaks
	for _, m := range members {
		known[m.pid] = m.spawned
	}
	p.kill(sig)
	for _, m := range members {
		s.killMember(p, m, sig)
	}
	pause := killPause
	for end := time.Now().Add(p.grace); time.Now().Before(end); pause = min(2*pause, longestPause) {
		running, _ := p.kill(0)
		if found, unclear := s.members(p, known); !running && len(found) == 0 && !unclear {
			return known
		}
		time.Sleep(min(pause, time.Until(end)))
	}
	return known
}

// longestPause limits the pause between searches for processes that have the grace to end.
const longestPause = 20 * time.Millisecond

// endTree kills all processes of the execution. An incomplete exit record waits for it. Called with mu held.
func (p *process) endTree() {
	p.sentKill = true
	p.end(func() map[int]uint64 { return nil })
}

// end calls first, which returns processes of the execution, and kills all of them and all that it finds. An incomplete
// exit record waits for it. Called with mu held.
func (p *process) end(first func() (known map[int]uint64)) {
	p.beginKill()
	waits := p.exited == nil
	if waits {
		p.pending++
	}
	p.s.run(func() {
		p.s.killTreeOf(p, first())
		p.endKill()
		if waits {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ended()
		}
	})
}
