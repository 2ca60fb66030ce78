package engine

import (
	"context"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// measured is a sandbox's usage at one moment.
type measured struct {
	usage sandbox.Usage
	at    time.Time
}

// freshMeasure is how old the last figures may be to serve as those before an execution. Reading the host's counters costs as much as a
// short execution, and executions often follow one another at once.
const freshMeasure = 20 * time.Millisecond

// measureBefore returns the usage before an execution.
func (s *Sandbox) measureBefore() sandbox.Usage {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if !last.at.IsZero() && time.Since(last.at) < freshMeasure {
		return last.usage
	}
	return s.measure()
}

// measure reads the host's counters. Unknown figures are negative.
func (s *Sandbox) measure() sandbox.Usage {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	usage, err := s.live.box.Usage(ctx)
	if err != nil {
		return unknownUsage
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = measured{usage, time.Now()}
	return usage
}
