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
	p.s.run(func() { p.s.signalTree(p, sig) })
	time.AfterFunc(p.grace, func() { // even if the started process itself ended at once
		p.mu.Lock()
		defer p.mu.Unlock()
		p.endTree()
	})
}

// endTree kills all processes of the execution. An incomplete exit record waits for it. Called with mu held.
func (p *process) endTree() {
	p.sentKill = true
	p.beginKill()
	waits := p.exited == nil
	if waits {
		p.pending++
	}
	p.s.run(func() {
		p.s.killTree(p)
		p.endKill()
		if waits {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ended()
		}
	})
}
