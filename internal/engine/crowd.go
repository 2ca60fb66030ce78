package engine

import (
	"cmp"
	"fmt"
	"slices"
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
	if !e.admission.divides() {
		return
	}
	for _, s := range crowd(list, most) {
		s.endAside(fmt.Sprintf("few processes are left: its client's sandboxes had more than %d, this one had %d",
			most*crowdMax/8, s.weight.pids))
	}
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
