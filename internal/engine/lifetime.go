package engine

import (
	"time"
)

// clocks end a sandbox that is not used, or old. The third clock, the time limit of an execution, is the execution's own.
type clocks struct {
	idle, age         *time.Timer
	idleEnds, ageEnds time.Time
	stopped           bool
	used              time.Time // when the last execution ended, or a call came
	ports             int       // open connections to the sandbox's ports, which are use
}

// startClocks starts the clocks, or starts them anew after a change.
func (s *Sandbox) startClocks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	life := s.record.Spec.Lifetime
	s.clocks.ageEnds = s.created.Add(life.MaxAge)
	s.setTimer(&s.clocks.age, time.Until(s.clocks.ageEnds), func() {
		s.endAside("it reached its maximum age of " + life.MaxAge.String())
	})
	s.windIdle()
}

// windIdle gives an idle sandbox its full idle time again. The caller holds mu.
func (s *Sandbox) windIdle() {
	idle := s.record.Spec.Lifetime.Idle
	s.clocks.idleEnds = time.Now().Add(idle)
	if s.inUse() {
		if s.clocks.idle != nil {
			s.clocks.idle.Stop()
		}
		return
	}
	s.setTimer(&s.clocks.idle, idle, s.idleOver)
}

// inUse reports whether the sandbox is anything but idle. The caller holds mu.
func (s *Sandbox) inUse() bool { return s.executions.running+s.clocks.ports > 0 }

// idleOver ends the sandbox, unless it was used in this moment.
func (s *Sandbox) idleOver() {
	s.mu.Lock()
	idle := s.record.Spec.Lifetime.Idle
	reason := "it was idle for " + idle.String()
	over := !s.inUse() && !time.Now().Before(s.clocks.idleEnds)
	if over { // under the lock, so that no execution begins after the decision
		s.endLife(&endedError{reason})
	}
	s.mu.Unlock()
	if over {
		s.endAside(reason)
	}
}

func (s *Sandbox) setTimer(t **time.Timer, d time.Duration, over func()) {
	if *t != nil {
		(*t).Stop()
	}
	if !s.clocks.stopped {
		*t = time.AfterFunc(d, over)
	}
}

func (s *Sandbox) stopClocks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clocks.stopped = true
	for _, t := range []*time.Timer{s.clocks.idle, s.clocks.age} {
		if t != nil {
			t.Stop()
		}
	}
}

// touch counts a call as use.
func (s *Sandbox) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clocks.used = time.Now()
	s.windIdle()
}
