package engine

import (
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Bounds of the life of a living sandbox.
const (
	DefaultIdle     = 30 * time.Minute    // without use
	DefaultLifetime = 24 * time.Hour      // from its creation
	MaxLifetime     = 30 * 24 * time.Hour // from a request until the end that it names
	leastLifetime   = time.Second
)

// Ends says when a living sandbox ends by itself. A zero field is the default when the sandbox is created, and no
// change later.
type Ends struct {
	Idle *time.Duration // after this long without use; 0 is never. The default is DefaultIdle
	At   time.Time      // at this time. The default is DefaultLifetime from the creation
	In   time.Duration  // this long from now, in place of At
}

// set checks the ends and puts them into a lifetime.
func (e Ends) set(life *sandbox.Lifetime) error {
	if e.Idle != nil {
		if d := *e.Idle; d != 0 && d < leastLifetime || d > MaxLifetime {
			return sandbox.Invalidf("lifetime.idle", "%s is neither 0 nor between %s and %s", d, leastLifetime,
				MaxLifetime)
		}
		life.Idle = *e.Idle
	}
	if e.In != 0 {
		if e.In < leastLifetime || e.In > MaxLifetime {
			return sandbox.Invalidf("lifetime.ends_in", "%s is not between %s and %s", e.In, leastLifetime, MaxLifetime)
		}
		e.At = time.Now().Add(e.In)
	}
	if !e.At.IsZero() {
		if time.Until(e.At) > MaxLifetime {
			return sandbox.Invalidf("lifetime.ends_at", "%s is more than %s from now", e.At.Format(time.RFC3339),
				MaxLifetime)
		}
		life.EndsAt = e.At
	}
	return nil
}

// timers end a sandbox that is not used, or at its end time. The time limit of a run is the run's own.
type timers struct {
	idle, end *time.Timer
	idleEnds  time.Time // zero is never
	stopped   bool
	used      time.Time // when the last run ended, or a call came
	ports     int       // open connections to the sandbox's ports, which are use
	calls     int       // in progress
}

// startTimers starts the timers, or restarts them after a change.
func (s *Sandbox) startTimers() {
	s.engine.startWeighing()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restartEnd()
	s.restartIdle()
}

// restartEnd starts the timer of the end time anew. The caller holds mu.
func (s *Sandbox) restartEnd() {
	if at := s.record.Spec.Lifetime.EndsAt; !at.IsZero() {
		s.setTimer(&s.timers.end, time.Until(at), s.endTimeOver)
	}
}

// endTimeOver ends the sandbox, unless its end time was put off in this moment: a change that is being saved decides
// first.
func (s *Sandbox) endTimeOver() {
	s.locks.saving.Lock()
	s.mu.Lock()
	at := s.record.Spec.Lifetime.EndsAt
	over := !time.Now().Before(at)
	if !over { // or the clock was set back
		s.restartEnd()
	}
	s.mu.Unlock()
	reason := "it reached its end time of " + at.UTC().Format(time.RFC3339)
	if over && s.life.Err() == nil {
		s.saveEndNow(reason)
		s.endLife(&endedError{reason})
	}
	s.locks.saving.Unlock()
	if over {
		s.endAside(reason)
	}
}

// restartIdle gives an idle sandbox its full idle time again. The caller holds mu.
func (s *Sandbox) restartIdle() {
	if s.timers.idle != nil {
		s.timers.idle.Stop()
	}
	s.timers.idleEnds = time.Time{}
	idle := s.record.Spec.Lifetime.Idle
	if idle == 0 || s.inUse() {
		return
	}
	s.timers.idleEnds = time.Now().Add(idle)
	s.setTimer(&s.timers.idle, idle, s.idleOver)
}

// inUse reports whether the sandbox is anything but idle. The caller holds mu.
func (s *Sandbox) inUse() bool { return s.runs.running+s.timers.ports+s.timers.calls > 0 }

// idleOver ends the sandbox, unless it was used in this moment.
func (s *Sandbox) idleOver() {
	s.mu.Lock()
	reason := "it was idle for " + s.record.Spec.Lifetime.Idle.String()
	over := !s.inUse() && !s.timers.idleEnds.IsZero() && !time.Now().Before(s.timers.idleEnds)
	if over { // under the lock, so that no run begins after the decision
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
	if !s.timers.stopped {
		*t = time.AfterFunc(d, over)
	}
}

func (s *Sandbox) stopTimers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers.stopped = true
	for _, t := range []*time.Timer{s.timers.idle, s.timers.end} {
		if t != nil {
			t.Stop()
		}
	}
}

// use counts a call as use until the caller calls done. It fails if the sandbox takes no more work.
func (s *Sandbox) use() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Ended(); err != nil {
		return nil, err
	}
	s.addUse(&s.timers.calls, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.addUse(&s.timers.calls, -1)
	}, nil
}

// touch counts this moment as use. It fails if the sandbox takes no more work.
func (s *Sandbox) touch() error {
	done, err := s.use()
	if err == nil {
		done()
	}
	return err
}

// addUse counts uses of one kind. The caller holds mu.
func (s *Sandbox) addUse(of *int, n int) {
	*of += n
	s.timers.used = time.Now()
	s.restartIdle()
}
