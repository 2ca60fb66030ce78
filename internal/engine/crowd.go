package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Parts, in eighths, of the processes that all sandboxes may have together.
const (
	fewLeft  = 6 // once all sandboxes have more, few are left
	crowdMax = 3 // the most for the sandboxes of one owner then
)

// endCrowd ends sandboxes of an owner with too many processes while few are left, as other owners could start none. The
// limit of processes bounds each sandbox, not an owner. If owners have no shares, the kernel's bound is enough.
func (e *Engine) endCrowd(list []*Sandbox) {
	most := e.config.Living.Processes
	if most == 0 || !e.admission.divides() {
		return
	}
	for _, s := range crowd(append(list, e.living.oneShots.count()...), most) {
		reason := fmt.Sprintf("few processes are left: its client's sandboxes had more than %d, this one had %d",
			most*crowdMax/8, s.weight.pids)
		if s.oneShot {
			s.endLife(&endedError{reason})
		} else {
			s.endAside(reason)
		}
	}
}

// crowdedOut returns the error of a one-shot run whose sandbox endCrowd ended, or nil.
func (s *Sandbox) crowdedOut() error {
	var ended *endedError
	if !errors.As(context.Cause(s.life), &ended) || ended.reason == reasonClosed {
		return nil
	}
	return &sandbox.Error{Kind: sandbox.Busy, Op: "run", Msg: ended.reason, RetryAfter: leastRetryAfter,
		Fix: "start fewer processes and threads, or try again later"}
}

// oneShots are the sandboxes of one-shot runs, until their boxes are closed. Its methods are safe for concurrent use.
type oneShots struct {
	mu  sync.Mutex
	all map[*Sandbox]bool
}

func (o *oneShots) add(s *Sandbox) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[*Sandbox]bool{}
	}
	o.all[s] = true
}

func (o *oneShots) remove(s *Sandbox) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, s)
}

// count counts the processes of each sandbox, and returns all.
func (o *oneShots) count() []*Sandbox {
	o.mu.Lock()
	list := slices.Collect(maps.Keys(o.all))
	o.mu.Unlock()
	for _, s := range list {
		s.weight.pids = -1
		if _, can := s.box.(sandbox.Yielder); !can {
			continue
		}
		if usage, err := s.box.Usage(s.life); err == nil {
			s.weight.pids = usage.PidsNow
		}
	}
	return list
}

// crowd returns the sandboxes to end: the largest of the owner with the most processes.
func crowd(list []*Sandbox, most int64) (largest []*Sandbox) {
	total, each, worst := int64(0), map[string]int64{}, ""
	for _, s := range list {
		n := max(s.weight.pids, 0) // less than 0 is unknown
		total += n
		if each[s.owner] += n; each[s.owner] > each[worst] {
			worst = s.owner
		}
	}
	if most == 0 || total <= most*fewLeft/8 {
		return nil
	}
	left := each[worst]
	for _, s := range list {
		switch {
		case s.owner != worst:
		case s.life.Err() != nil: // it waits to be closed
			left -= max(s.weight.pids, 0)
		default:
			largest = append(largest, s)
		}
	}
	slices.SortFunc(largest, func(a, b *Sandbox) int { return cmp.Compare(b.weight.pids, a.weight.pids) })
	n := 0
	for ; n < len(largest) && left > most*crowdMax/8; n++ {
		left -= largest[n].weight.pids
	}
	return largest[:n]
}
