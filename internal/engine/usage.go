package engine

import (
	"context"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// measured is a sandbox's usage at one moment.
type measured struct {
	usage sandbox.Usage
	at    time.Time
}

// freshMeasure is how old the figures at the end of one run may be to serve as those before the next. Reading the
// host's counters costs as much as a short run, and runs often follow one another at once.
const freshMeasure = 20 * time.Millisecond

// measureBefore notes the usage of the sandbox before the run.
func (x *Run) measureBefore() {
	s := x.sandbox
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if !last.at.IsZero() && time.Since(last.at) < freshMeasure {
		x.before = last.usage
	} else {
		x.before = s.measure()
	}
	if x.resumed != nil { // its use under an earlier server is not known
		x.before.CPU, x.before.DiskWritten = -1, -1
	}
}

// measure reads the host's counters. Unknown figures are negative.
func (s *Sandbox) measure() sandbox.Usage {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	usage, err := s.usage(ctx, false)
	if err != nil {
		return unknownUsage
	}
	s.measured(usage)
	return usage
}

// usage reads the host's counters. Where the guest kills processes at the memory limit, it adds the guest's count: the
// last one, if the guest has ended.
func (s *Sandbox) usage(ctx context.Context, ended bool) (sandbox.Usage, error) {
	u, err := s.box.Usage(ctx)
	if limited, ok := s.box.(sandbox.GuestLimited); err != nil || u.OOMKills < 0 || !ok || !limited.GuestLimited() {
		return u, err
	}
	if !ended {
		_ = s.call(ctx, func(c *client.Client) error {
			n, err := c.Memory(ctx, 0)
			if err == nil {
				s.guestKills.Store(n)
			}
			return err
		})
	}
	u.OOMKills += s.guestKills.Load()
	return u, nil
}

// measured keeps figures that were just read.
func (s *Sandbox) measured(usage sandbox.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = measured{usage, time.Now()}
}
