package engine

import (
	"context"
	"slices"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// changeable are the limits of a living sandbox that can change. The engine enforces the first two, for later runs.
var changeable = []sandbox.LimitName{sandbox.LimitTimeout, sandbox.LimitOutput, sandbox.LimitMemory, sandbox.LimitCPUs}

// resize changes the limits of the box; a zero field keeps its value. undo takes it back. The caller holds
// locks.updating, and puts the limits on record.
func (s *Sandbox) resize(l sandbox.Limits) (undo func() error, err error) {
	undo = func() error { return nil }
	named := l.Named()
	if len(named) == 0 {
		return undo, nil
	}
	if err := s.checkResize(l, named); err != nil {
		return undo, err
	}
	if l.MemoryBytes == 0 && l.CPUMillis == 0 {
		return undo, nil
	}
	before := s.effective().Limits
	if err := s.resizeBox(l); err != nil {
		return undo, err
	}
	return func() error { return s.resizeBox(before) }, nil
}

// resizeBox changes the memory and the CPUs of the box.
func (s *Sandbox) resizeBox(l sandbox.Limits) error {
	ctx, cancel := context.WithTimeout(s.life, usageTimeout)
	defer cancel()
	to := sandbox.Limits{MemoryBytes: max(l.MemoryBytes, 0), CPUMillis: max(l.CPUMillis, 0)} // less is not enforced
	err := s.box.(sandbox.Resizer).Resize(ctx, to)
	if err == nil && to.CPUMillis > 0 && s.passage != nil {
		s.passage.SetCPU(to.CPUMillis)
	}
	return err
}

// restoreLimits gives a reattached box the limits on record: a server that was killed during a change may have changed
// only the box.
func (s *Sandbox) restoreLimits() {
	if _, resizes := s.box.(sandbox.Resizer); !resizes {
		return
	}
	limits := s.box.Effective().Limits
	for _, name := range []sandbox.LimitName{sandbox.LimitMemory, sandbox.LimitCPUs} {
		if v := s.record.Resized.Get(name); v != 0 && limits.Get(name) > 0 {
			limits.Set(name, v)
		}
	}
	if err := s.resizeBox(limits); err != nil {
		s.engine.log.Warn("could not restore the limits of a sandbox", "sandbox", s.id, "err", err)
	}
}

// setLimits puts changed limits on record.
func setLimits(r *sandbox.Record, l sandbox.Limits) {
	named := l.Named()
	for _, name := range named {
		r.Resized.Set(name, l.Get(name))
		r.Spec.Limits.Set(name, l.Get(name))
	}
	r.Spec.Named = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.Spec.Named, named))))
}

// checkResize refuses a limit that cannot change, or that this sandbox does not enforce.
func (s *Sandbox) checkResize(l sandbox.Limits, named []sandbox.LimitName) error {
	effective, spec := s.effective(), s.spec()
	_, resizes := s.box.(sandbox.Resizer)
	for _, name := range named {
		ours := name == sandbox.LimitTimeout || name == sandbox.LimitOutput
		switch {
		case !slices.Contains(changeable, name):
			return &sandbox.Error{Kind: sandbox.Unsupported, Op: "limits." + string(name),
				Msg: "is fixed when a sandbox is created",
				Fix: "create another sandbox"}
		case !ours && !resizes:
			return &sandbox.Error{Kind: sandbox.Unsupported, Op: "limits." + string(name),
				Msg: "the backend " + s.backend.Name() + " cannot change it", Fix: "create another sandbox"}
		case !ours && effective.Limits.Get(name) <= 0:
			return &sandbox.Error{Kind: sandbox.Unsupported, Op: "limits." + string(name),
				Msg: "this host does not enforce it"}
		}
	}
	rules := s.engine.rulesOf(s.owner)
	return rules.CheckChange(l, spec)
}
