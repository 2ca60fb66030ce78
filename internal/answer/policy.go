package answer

import (
	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func newPolicy(r *sandbox.Result, differences []sandbox.Difference) *api.Policy {
	return &api.Policy{Backend: r.Effective.Backend, Requested: newRequested(r),
		Effective: newEffective(&r.Effective), Differences: List(differences)}
}

// NewPolicy returns the policy section of a living sandbox. It returns nil if nothing differs, unless included is set.
func NewPolicy(requested sandbox.Spec, effective sandbox.Policy, included bool) *api.Policy {
	effective.Requested = effective.Backend
	r := &sandbox.Result{Requested: requested, Effective: effective}
	differences := r.Differences()
	if !requested.Unexpected(differences) && !included {
		return nil
	}
	return newPolicy(r, differences)
}

func newRequested(r *sandbox.Result) api.Requested {
	s := &r.Requested
	return api.Requested{
		Backend:         r.Effective.Requested,
		Image:           s.Root.Image,
		Limits:          NewLimits(s.Limits),
		Named:           List(s.Named),
		Network:         NewNetwork(s.Network),
		User:            api.User(s.User),
		Commands:        s.Commands,
		AllowUnenforced: List(s.AllowUnenforced),
	}
}

func newEffective(p *sandbox.Policy) api.Effective {
	e := api.Effective{
		Kernel:     p.Kernel,
		Image:      p.Image,
		Limits:     NewLimits(p.Limits),
		Enforcers:  p.Enforcers,
		Network:    NewNetwork(p.Network),
		User:       api.User(p.User),
		HostUID:    p.HostUID,
		Commands:   p.Commands,
		Isolation:  make(map[string]sandbox.WallState, len(p.Walls)),
		Unenforced: List(p.Unenforced),
		Warnings:   List(p.Warnings),
	}
	if e.Enforcers == nil {
		e.Enforcers = map[sandbox.LimitName]string{}
	}
	for _, w := range p.Walls {
		e.Isolation[w.Name] = w.State
	}
	return e
}
