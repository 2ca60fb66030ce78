package httpd

import (
	"context"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cputime"
)

// measureEvery is how often the CPU time of the process is compared with what requests may have, and how long a
// measurement takes.
const measureEvery = time.Second

// Measure corrects the estimates of shares while the process takes more than half of the CPU time that all requests may
// have: it measures which client takes how much, and charges each what its requests took beyond what was noted. A
// measurement takes some 3 ms for each second. It ends when stop is called.
func (s *Server) Measure() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for busy := false; ctx.Err() == nil; {
			before := cputime.Process()
			if !busy || !s.measure(ctx) {
				sleep(ctx, measureEvery)
			}
			busy = cputime.Process()-before >= s.shares.within(measureEvery)/2
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// measure reports whether it measured, which takes measureEvery.
func (s *Server) measure(ctx context.Context) bool {
	m, err := cputime.Start()
	if err != nil { // another profile of this process is in progress
		return false
	}
	s.shares.startCount()
	sleep(ctx, measureEvery)
	clients, err := m.Stop()
	if err != nil {
		s.log.Warn("could not measure the CPU time of clients", "err", err)
	}
	s.shares.correct(clients, time.Now())
	return true
}

func sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// within returns the CPU time that all requests may have in a time.
func (s *shares) within(d time.Duration) time.Duration { return time.Duration(s.total * float64(d)) }

// startCount begins to count what is noted of each client, until correct.
func (s *shares) startCount() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted = map[string]time.Duration{}
}

// correct charges each client the measured CPU time beyond what was counted of it.
func (s *shares) correct(measured map[string]time.Duration, now time.Time) {
	s.mu.Lock()
	counted := s.counted
	s.counted = nil
	s.mu.Unlock()
	for owner, rest := range s.ahead { // some work is noted before it begins
		// Any number of addresses may make one request each.
		if _, noted := counted[owner]; noted || measured[owner] > 0 || kindOf(owner) == ofKeys {
			counted[owner] += rest
		}
	}
	s.ahead = map[string]time.Duration{}
	for owner, noted := range counted {
		if rest := min(noted-measured[owner], s.within(measureEvery)); rest > 0 {
			s.ahead[owner] = rest
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for owner, used := range measured {
		if more := used - counted[owner]; more > 0 {
			s.charge(owner, more, now)
			s.corrected += more
		}
	}
}
