package engine

import (
	"context"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
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

// leaseShare is how often a lease is renewed while it lasts, so that it survives two failures.
const leaseShare = 3

// redialPause is how long to wait before another try to reach a guest whose connection broke.
const redialPause = 50 * time.Millisecond

// watch renews the guest's lease and keeps a connection to it, until the sandbox ends. If the box is gone, it ends the sandbox.
func (s *Sandbox) watch() {
	lease := s.record.Spec.Lifetime.GuestLease()
	renew := time.NewTicker(lease / leaseShare)
	defer renew.Stop()
	for {
		c := s.connection()
		select {
		case <-s.life.Done():
			return
		case <-renew.C:
			s.renew(c, lease)
		case <-c.Done():
			if !s.redial() {
				return
			}
		}
	}
}

func (s *Sandbox) connection() *client.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

func (s *Sandbox) renew(c *client.Client, lease time.Duration) {
	ctx, cancel := context.WithTimeout(s.life, lease/leaseShare)
	defer cancel()
	if err := c.Lease(ctx, lease); err != nil && s.life.Err() == nil {
		s.engine.log.Warn("could not renew the lease of a sandbox", "sandbox", s.id, "err", err)
	}
}

// redialTimeout is how long a guest may be out of reach while its box lives.
const redialTimeout = 10 * time.Second

// redial makes a new connection after one broke. It ends the sandbox and returns false if the guest is gone.
func (s *Sandbox) redial() bool {
	ctx, cancel := context.WithTimeout(s.life, redialTimeout)
	defer cancel()
	for {
		if reason, gone := s.died(); gone {
			s.endAside(reason)
			return false
		}
		conn, err := s.live.box.Dial(ctx)
		if err == nil {
			var c *client.Client
			if c, err = client.New(ctx, conn, s.live.box.GuestKey()); err == nil {
				s.mu.Lock()
				old := s.client
				s.client = c
				s.mu.Unlock()
				_ = old.Close() // it is broken
				return true
			}
		}
		select {
		case <-time.After(redialPause):
		case <-ctx.Done():
			if s.life.Err() == nil {
				s.endAside("its guest stopped answering: " + err.Error())
			}
			return false
		}
	}
}

// died asks the backend how the box ended, if it has.
func (s *Sandbox) died() (reason string, gone bool) {
	ctx, cancel := context.WithTimeout(context.Background(), redialPause)
	defer cancel()
	end, err := s.live.box.Wait(ctx)
	if err != nil {
		return "", false
	}
	usage, err := s.live.box.Usage(ctx)
	if err == nil && usage.OOMKills > 0 && end.Cause != sandbox.EndClosed {
		return "the kernel ended it at its memory limit of " + sandbox.FormatBytes(s.live.spec.Limits.MemoryBytes), true
	}
	switch end.Cause {
	case sandbox.EndGuest:
		return "its guest ended, as no server had renewed its lease in time or something in it asked for that", true
	case sandbox.EndClosed:
		return reasonRemoved, true
	}
	return "it was killed from outside", true
}
