package engine

import (
	"context"
	"time"

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
	usage, err := s.box.Usage(ctx)
	if err != nil {
		return unknownUsage
	}
	s.measured(usage)
	return usage
}

// measured keeps figures that were just read.
func (s *Sandbox) measured(usage sandbox.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = measured{usage, time.Now()}
}
