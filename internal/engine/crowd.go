package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Parts, in eighths, of the processes that all sandboxes may have together.
const (
	fewLeft  = 6 // once all sandboxes have more, few are left
	crowdMax = 3 // the most for the sandboxes of one owner then
)

// crowdRest is how long an owner gets no new sandboxes once it lost some: it could start the same at once.
const crowdRest = 30 * time.Second

// endCrowd ends sandboxes of an owner with too many processes while few are left, as other owners could start none. The
// limit of processes bounds each sandbox, not an owner. If owners have no shares, the kernel's bound is enough.
func (e *Engine) endCrowd(list []*Sandbox) {
	most := e.config.Living.Processes
	if most == 0 || !e.admission.divides() {
		return
	}
	all := e.living.crowding.count()
	for _, s := range list {
		all = append(all, counted{s, s.owner, s.weight.pids})
	}
	for _, s := range crowd(all, most) {
		e.living.crowding.rest(s.owner, time.Now())
		reason := fmt.Sprintf("few processes are left: its client's sandboxes had more than %d, this one had %d",
			most*crowdMax/8, s.pids)
		switch {
		case slices.Contains(list, s.of):
			s.of.endAside(reason)
		case !e.pool.expel(s.of) && e.living.crowding.has(s):
			s.of.endLife(&endedError{reason})
		}
	}
}

// crowdedOut returns the error of a one-shot run whose sandbox endCrowd ended, or nil.
func (s *Sandbox) crowdedOut() error {
	var ended *endedError
	if !errors.As(context.Cause(s.life), &ended) || ended.reason == reasonClosed {
		return nil
	}
	return fewerProcesses(ended.reason, crowdRest)
}

func fewerProcesses(reason string, after time.Duration) error {
	return &sandbox.Error{Kind: sandbox.Busy, Op: "sandbox", Msg: reason, RetryAfter: after,
		Fix: "start fewer processes and threads, or try again later"}
}

// crowding records the sandboxes that endCrowd counts besides the living ones, and owners that wait. Its methods are
// safe for concurrent use.
type crowding struct {
	mu sync.Mutex // guards all below
	// The owner of each sandbox of a one-shot run, and of each warm one with code of an image, until its box is closed.
	// It is here, too, as a run that takes a warm sandbox changes its fields.
	oneShots map[*Sandbox]string
	rests    map[string]time.Time // when an owner that lost sandboxes gets new ones
}

// rest lets an owner wait for new sandboxes.
func (c *crowding) rest(owner string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rests == nil {
		c.rests = map[string]time.Time{}
	}
	maps.DeleteFunc(c.rests, func(_ string, until time.Time) bool { return now.After(until) })
	c.rests[owner] = now.Add(crowdRest)
}

// refusal returns why an owner gets no new sandbox now, or nil.
func (c *crowding) refusal(owner string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := time.Until(c.rests[owner])
	if left <= 0 {
		return nil
	}
	return fewerProcesses("few processes were left, and its client's sandboxes had too many", left)
}

// mayOwnMore returns why an owner gets no further living sandbox, or nil. The caller holds the table's mu.
func (e *Engine) mayOwnMore(owner string) error {
	if most := e.mostSandboxes(owner); most > 0 && e.living.owned[owner] >= most {
		return quota("you have", most)
	}
	return e.living.crowding.refusal(owner)
}

func (c *crowding) add(s *Sandbox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.oneShots == nil {
		c.oneShots = map[*Sandbox]string{}
	}
	c.oneShots[s] = s.owner
}

func (c *crowding) remove(s *Sandbox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.oneShots, s)
}

// has reports whether a sandbox still belongs to its owner.
func (c *crowding) has(s counted) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	owner, has := c.oneShots[s.of]
	return has && owner == s.owner
}

// counted is a sandbox as it was when its processes and threads were counted; less than 0 is unknown.
type counted struct {
	of    *Sandbox
	owner string
	pids  int64
}

// count counts the processes of each sandbox, and returns all.
func (c *crowding) count() (list []counted) {
	c.mu.Lock()
	for s, owner := range c.oneShots {
		list = append(list, counted{s, owner, -1})
	}
	c.mu.Unlock()
	for i, s := range list {
		if _, can := s.of.box.(sandbox.Yielder); !can {
			continue
		}
		if usage, err := s.of.box.Usage(s.of.life); err == nil {
			list[i].pids = usage.PidsNow
		}
	}
	return list
}

// crowd returns the sandboxes to end: the largest of the owner with the most processes.
func crowd(list []counted, most int64) (largest []counted) {
	total, each, worst := int64(0), map[string]int64{}, ""
	for _, s := range list {
		n := max(s.pids, 0)
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
		case s.of.life.Err() != nil: // it waits to be closed
			left -= max(s.pids, 0)
		default:
			largest = append(largest, s)
		}
	}
	slices.SortFunc(largest, func(a, b counted) int { return cmp.Compare(b.pids, a.pids) })
	n := 0
	for ; n < len(largest) && left > most*crowdMax/8; n++ {
		left -= largest[n].pids
	}
	return largest[:n]
}
