package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Stats is the state of an engine at one moment, and its totals since New.
type Stats struct {
	Slots    int  // most concurrent executions
	Queue    int  // most waiting runs
	Running  int  // slots in use
	Queued   int  // waiting runs
	Closing  int  // boxes being closed after their answer
	Live     int  // boxes that exist
	Warm     int  // boxes kept ready
	Draining bool // no new runs are admitted

	LogBytes int64 // on disk, of the logs of ended executions in living sandboxes

	Ended   map[sandbox.Status]uint64 // runs that ended, by status
	Refused map[sandbox.Kind]uint64   // runs that ended in an error, by its kind
	Panics  uint64                    // contained panics
	Forked  uint64                    // runs in a fork of a waiting interpreter

	Network sandbox.NetworkTotal // attempts of sandboxes to reach something, that are over

	QueueTime  time.Duration // totals over all runs that ended in a status
	CreateTime time.Duration
	RunTime    time.Duration
	CPUTime    time.Duration
}

// counts holds the totals.
type counts struct {
	mu     sync.Mutex // guards totals
	totals Stats
}

func (c *counts) ended(r *sandbox.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.totals.Ended == nil {
		c.totals.Ended = map[sandbox.Status]uint64{}
	}
	c.totals.Ended[r.Status]++
	c.totals.QueueTime += r.Timings.Queue
	c.totals.CreateTime += r.Timings.Create
	c.totals.RunTime += r.Timings.Run
	c.totals.CPUTime += max(r.Usage.CPU, 0)
}

func (c *counts) forked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.totals.Forked++
}

func (c *counts) refused(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.totals.Refused == nil {
		c.totals.Refused = map[sandbox.Kind]uint64{}
	}
	c.totals.Refused[sandbox.KindOf(err)]++
}

func (c *counts) panicked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.totals.Panics++
}

// Stats returns the state of the engine now. It never waits for a run.
func (e *Engine) Stats() Stats {
	e.counts.mu.Lock()
	s := e.counts.totals
	s.Ended, s.Refused = maps.Clone(s.Ended), maps.Clone(s.Refused)
	e.counts.mu.Unlock()

	s.Slots, s.Queue = e.config.Slots, e.config.Queue
	s.Running, s.Queued, s.Draining = e.admission.load()
	s.Closing = e.closers.count()
	s.Warm = e.pool.count()
	s.LogBytes = e.logs.Bytes()
	if e.config.Gate != nil {
		s.Network = e.config.Gate.Total()
	}
	s.Live = int(e.boxes.Load())
	return s
}
