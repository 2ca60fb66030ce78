package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Stats is the state of an engine at one moment, and its totals since New.
type Stats struct {
	Slots    int  // most concurrent runs
	Queue    int  // most waiting runs
	Running  int  // slots in use
	Queued   int  // waiting runs
	Closing  int  // boxes being closed after their answer
	Live     int  // boxes that exist
	Warm     int  // boxes kept ready
	Draining bool // no new runs are admitted

	FullFor time.Duration // for how long there is neither a slot nor a place in the queue; 0 while there is

	LogBytes int64 // on disk, of the logs of ended runs in living sandboxes

	Ended   map[sandbox.Status]uint64 // runs that ended, by status
	Refused map[sandbox.Kind]uint64   // runs that ended in an error, by its kind
	Panics  uint64                    // contained panics
	Forked  uint64                    // runs in a fork of a waiting interpreter
	Parked  uint64                    // runs in an interpreter that waited in its sandbox

	Network sandbox.NetworkTotal // attempts of sandboxes to reach something, that are over

	QueueTime  time.Duration // totals over all runs that ended in a status
	CreateTime time.Duration
	RunTime    time.Duration
	CPUTime    time.Duration
}

// counts totals what was observed.
type counts struct {
	mu     sync.Mutex // guards totals
	totals Stats
}

func (c *counts) observe(o *Observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.totals
	switch o.Kind {
	case RunEnded:
		t.Ended[o.Result.Status]++
		t.QueueTime += o.Result.Timings.Queue
		t.CreateTime += o.Result.Timings.Create
		t.RunTime += o.Result.Timings.Run
		t.CPUTime += max(o.Result.Usage.CPU, 0)
	case RunRefused:
		t.Refused[sandbox.KindOf(o.Err)]++
	case RunForked:
		t.Forked++
	case RunParked:
		t.Parked++
	case PanicContained:
		t.Panics++
	}
}

// Draining reports whether no new runs are admitted.
func (e *Engine) Draining() bool { return e.admission.isDraining() }

// Stats returns the state of the engine now. It never waits for a run.
func (e *Engine) Stats() Stats {
	e.counts.mu.Lock()
	s := e.counts.totals
	s.Ended, s.Refused = maps.Clone(s.Ended), maps.Clone(s.Refused)
	e.counts.mu.Unlock()

	s.Slots, s.Queue = e.config.Slots, e.config.Queue
	s.Running, s.Queued, s.Draining = e.admission.load()
	s.FullFor = e.admission.fullFor()
	s.Closing = e.closers.count()
	s.Warm = e.pool.count()
	s.LogBytes = e.living.logs.Bytes()
	if e.config.Gate != nil {
		s.Network = e.config.Gate.Total()
	}
	s.Live = int(e.boxes.Load())
	return s
}
