package rules

import "slices"

// CheckName decides about a connection that states the canonical name that it is for: in its TLS hello or a Host
// header. "" is a connection that has stated none yet.
func (r *Rules) CheckName(d Destination, name string) Verdict {
	return r.under(r.checkName(d, name), func(c *Rules) Verdict { return c.checkName(d, name) })
}

func (r *Rules) checkName(d Destination, name string) Verdict {
	v := r.decide(d)
	if !v.Allowed || name == "" {
		return v
	}
	stated := r.decideNameAt(name, d.To.Port(), false)
	switch {
	case !v.ByName && stated.Reason != Denied:
		v.Name = name
		return v
	case v.ByName && stated.Allowed && !slices.Contains(d.Names, name):
		stated.Allowed, stated.Reason = false, NotResolved
	}
	return stated
}

// Names reports whether names decide about datagrams that a verdict allows: its rule has one, or some are denied.
func (r *Rules) Names(v Verdict) bool { return v.ByName || r.DeniesNames() }
