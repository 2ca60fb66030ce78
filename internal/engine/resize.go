package engine

import (
	"context"
	"slices"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// changeable are the limits of a living sandbox that can change. The engine enforces the first two, for later runs.
var changeable = []sandbox.LimitName{sandbox.LimitTimeout, sandbox.LimitOutput, sandbox.LimitMemory, sandbox.LimitCPUs}

// resize changes limits; a zero field keeps its value. The caller holds locks.updating.
func (s *Sandbox) resize(l sandbox.Limits) error {
	named := l.Named()
	if len(named) == 0 {
		return nil
	}
	if err := s.checkResize(l, named); err != nil {
		return err
	}
	if l.MemoryBytes != 0 || l.CPUMillis != 0 {
		ctx, cancel := context.WithTimeout(s.life, usageTimeout)
		defer cancel()
		to := sandbox.Limits{MemoryBytes: l.MemoryBytes, CPUMillis: l.CPUMillis}
		if err := s.box.(sandbox.Resizer).Resize(ctx, to); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := &s.record.Spec
	for _, name := range named {
		s.record.Resized.Set(name, l.Get(name))
		spec.Limits.Set(name, l.Get(name))
	}
	spec.Named = slices.Compact(slices.Sorted(slices.Values(slices.Concat(spec.Named, named))))
	return nil
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
