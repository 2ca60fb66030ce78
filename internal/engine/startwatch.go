package engine

import "time"

// Bounds of the CPU time that the start commands of images take in the warm boxes of an owner. No slot, no limit of
// time and no number of sandboxes bounds it. Boxes of KeepWarm are the operator's.
const (
	maxWaitingCPU = 5 * time.Second // at once,
	waitingShare  = 4               // and then 1/4 of a CPU
	freeStartCPU  = time.Second / 2 // of each box, until it waits: a run would need as much in its slot
)

// allowance is the CPU time that the warm boxes of an owner may yet take.
type allowance struct {
	left time.Duration
	at   time.Time
}

// spend takes CPU time of the allowance of an owner, and reports whether nothing is left. The caller holds mu.
func (p *pool) spend(owner string, cpu time.Duration) (over bool) {
	if p.allowed == nil {
		p.allowed = map[string]allowance{}
	}
	a, now := p.allowed[owner], time.Now()
	a.left, a.at = min(a.left+now.Sub(a.at)/waitingShare, maxWaitingCPU)-cpu, now
	p.allowed[owner] = a
	return a.left <= 0
}

// starts reports whether the boxes of a shelf start a command that counts.
func (s *shelf) starts() bool { return s.spec.Root.Start != nil && !s.kept }

// watchStart counts the CPU time of a warm box with a start command until it is taken or ends.
func (p *pool) watchStart(s *shelf, l *Sandbox) {
	counted := min(max(l.measure().CPU, 0), freeStartCPU) // less than 0 is unknown
	for {
		cpu := l.measure().CPU
		if !p.holds(s, l) { // after the reading: what a run uses is its own
			return
		}
		p.countStart(s, max(cpu-counted, 0))
		counted = max(cpu, counted)
		select {
		case <-time.After(parkedLook):
		case <-p.engine.stop.Done():
			return
		}
	}
}

// countStart counts CPU time of a start command in a warm box. If its owner has no more, it ends all such boxes; until
// there is some again, no others are made.
func (p *pool) countStart(s *shelf, cpu time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.starts() || !p.spend(s.owner, cpu) {
		return
	}
	for _, other := range p.shelves {
		if other.owner != s.owner || !other.starts() {
			continue
		}
		for _, l := range other.ready {
			p.discard(l)
		}
		other.ready = nil
	}
}
