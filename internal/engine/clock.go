package engine

import (
	"sync"
	"time"
)

// clock measures the time limit of a run. It stops while calls wait for their answers, for a bounded time in total.
type clock struct {
	mu      sync.Mutex
	most    time.Duration // that it may stop yet
	stopped time.Duration // that it has stopped
	since   time.Time     // when it stopped; zero while it runs
	end     time.Time     // when the run must end, unless it stops
	expire  *time.Timer   // at end; nil before begin
	resume  *time.Timer   // ends the longest stop
}

func newClock(most time.Duration) *clock { return &clock{most: most} }

// begin starts the clock; late is called when the time is over.
func (c *clock) begin(end time.Time, late func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = end.Add(c.stopped)
	c.expire = time.AfterFunc(time.Until(c.end), late)
	if !c.since.IsZero() { // calls of an earlier server wait
		c.halt()
	}
}

// stop stops the clock, if one call waits.
func (c *clock) stop(waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting == 1 && c.since.IsZero() && c.most > 0 {
		c.since = time.Now()
		c.halt()
	}
}

// halt stops the timer of the run. The caller holds mu.
func (c *clock) halt() {
	if c.expire != nil && c.expire.Stop() { // else it has not begun, or is over
		c.resume = time.AfterFunc(c.most-time.Since(c.since), func() { c.start(0) })
	}
}

// start starts the clock again, if no call waits.
func (c *clock) start(waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting > 0 || c.since.IsZero() {
		return
	}
	c.count(time.Now())
	if c.resume != nil && c.resume.Stop() || c.expire != nil && c.most <= 0 {
		c.expire.Reset(time.Until(c.end))
	}
}

// count counts a stop until a time. The caller holds mu.
func (c *clock) count(until time.Time) {
	paused := min(until.Sub(c.since), c.most)
	c.stopped, c.most, c.end = c.stopped+paused, c.most-paused, c.end.Add(paused)
	c.since = time.Time{}
}

// recall restores a stop or its end, at a time under an earlier server.
func (c *clock) recall(stops bool, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.since.IsZero():
	case stops:
		c.since = at
	default:
		c.count(at)
	}
}

// close stops the timers for good.
func (c *clock) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range []*time.Timer{c.expire, c.resume} {
		if t != nil {
			t.Stop()
		}
	}
	c.expire, c.resume = nil, nil
}

// paused returns how long the clock has stopped so far.
func (c *clock) paused() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return c.stopped
	}
	return c.stopped + min(time.Since(c.since), c.most)
}
