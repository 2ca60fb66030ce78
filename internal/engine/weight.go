package engine

import (
	"runtime"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Work without a slot: runs without a time limit, commands of clients that free their slots, and processes that runs
// leave behind. No slot bounds it, so all sandboxes of an owner with such work have the weight of one together.
const (
	weighEvery = time.Second
	weighBusy  = 100              // a sandbox works if it takes 1/100 of a CPU
	weighFor   = 10 * time.Second // how long a sandbox counts as working after it has worked
)

// weight is the weight of a living sandbox among those that want CPU time.
type weight struct {
	mu    sync.Mutex    // guards all below, and orders the changes of the box
	holds int           // runs that have a slot
	since time.Time     // start of the holds
	held  time.Duration // time with ended holds, after measured

	cpu      time.Duration // of the box at measured
	measured time.Time
	worked   time.Time // last time at which it worked without a slot
	pids     int64     // processes and threads; less than 0 is unknown
	part     int       // without holds, the box has 1/part of the usual weight
	set      int       // the part that the box has; 0 is unknown
}

// holdWeight gives the sandbox its usual weight until drop.
func (s *Sandbox) holdWeight() (drop func()) {
	w := &s.weight
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holds++; w.holds == 1 {
		w.since = time.Now()
		s.weigh()
	}
	return s.dropWeight
}

func (s *Sandbox) dropWeight() {
	w := &s.weight
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holds--; w.holds == 0 {
		w.held += time.Since(w.since)
		s.weigh()
	}
}

// weigh changes the weight of the box if it must have another. The caller holds weight.mu.
func (s *Sandbox) weigh() {
	w := &s.weight
	part := max(w.part, 1)
	if w.holds > 0 {
		part = 1
	}
	box, can := s.box.(sandbox.Yielder)
	if !can || part == w.set {
		return
	}
	w.set = part
	if err := box.Yield(part); err != nil && s.life.Err() == nil {
		s.engine.log.Warn("could not change the weight of a sandbox", "sandbox", s.id, "err", err)
	}
}

// worksAside measures the sandbox, and reports whether it has worked without a slot in the last weighFor.
func (s *Sandbox) worksAside(now time.Time) bool {
	if _, can := s.box.(sandbox.Yielder); !can {
		return false
	}
	usage, err := s.box.Usage(s.life)
	if err != nil || usage.CPU < 0 {
		return false
	}
	w := &s.weight
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holds > 0 {
		w.held += now.Sub(w.since)
		w.since = now
	}
	aside := usage.CPU - w.cpu - w.held*time.Duration(runtime.NumCPU())
	if !w.measured.IsZero() && aside > now.Sub(w.measured)/weighBusy {
		w.worked = now
	}
	w.cpu, w.held, w.measured, w.pids = usage.CPU, 0, now, usage.PidsNow
	return now.Sub(w.worked) < weighFor
}

// weighAll divides the weight of each owner among those of its sandboxes that work without a slot.
func weighAll(list []*Sandbox, now time.Time) {
	var aside []bool
	each := map[string]int{}
	for _, s := range list {
		works := s.worksAside(now)
		if aside = append(aside, works); works {
			each[s.owner]++
		}
	}
	for i, s := range list {
		s.weight.mu.Lock()
		if s.weight.part = 1; aside[i] {
			s.weight.part = each[s.owner]
		}
		s.weigh()
		s.weight.mu.Unlock()
	}
}

// startWeighing starts the goroutine that measures living sandboxes and counts processes, unless it runs.
func (e *Engine) startWeighing() {
	t := e.living
	t.weighing.Do(func() {
		e.goAside(func() {
			tick := time.NewTicker(weighEvery)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					list := t.all((*Sandbox).isMade) // also those that wait to be closed: their processes go on
					weighAll(list, time.Now())       // a late tick would be earlier than the holds
					e.endCrowd(list)
				case <-e.stop.Done():
					return
				}
			}
		})
	})
}
