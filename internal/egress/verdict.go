package egress

import (
	"net/netip"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// verdict is what rules say of a destination.
type verdict struct {
	allowed bool
	byName  bool   // only because of its names: what the connection says of itself must agree with them
	name    string // of the destination, where known
	rule    string // the rule that decided, "" where none did
	reason  string // of a refusal
}

const (
	noRule   = "no rule allows it"
	denied   = "a rule denies it"
	quic     = "QUIC hides the name"
	portQUIC = 443
)

// resolves decides whether a canonical name may be resolved: at some port it must be allowed.
func (r *Rules) resolves(name string) verdict {
	v := verdict{name: name}
	if no := r.deny.byName(name, ports.all); no != nil {
		v.rule, v.reason = no.text, denied
		return v
	}
	switch r.mode {
	case sandbox.NetworkFull:
		v.allowed, v.rule = true, string(r.mode)
	case sandbox.NetworkRestricted:
		yes := r.allow.byName(name, func(ports) bool { return true })
		if v.allowed = yes != nil; v.allowed {
			v.rule = yes.text
		}
	}
	if !v.allowed {
		v.reason = noRule
	}
	return v
}

// named decides about a canonical name at a port. explicit demands a rule that gives the port.
func (r *Rules) named(name string, port uint16, explicit bool) verdict {
	v := verdict{name: name}
	suits := func(p ports) bool { return p.has(port) }
	if no := r.deny.byName(name, suits); no != nil {
		v.rule, v.reason = no.text, denied
		return v
	}
	if r.mode == sandbox.NetworkFull {
		v.allowed, v.rule = true, string(r.mode)
		return v
	}
	yes := r.allow.byName(name, func(p ports) bool { return p.has(port) && !(explicit && p.all()) })
	if r.mode != sandbox.NetworkRestricted || yes == nil {
		v.reason = noRule
		return v
	}
	v.allowed, v.byName, v.rule = true, true, yes.text
	return v
}

// destination is where a connection or a datagram goes, and what is known of it.
type destination struct {
	to    netip.AddrPort // canonical
	udp   bool
	own   bool     // an address of the host
	names []string // that the gate handed out this address for, the latest first
}

// decide is the one place where a destination is allowed or refused.
func (r *Rules) decide(d destination) verdict {
	what, never := classify(d.to.Addr())
	v := verdict{}
	if len(d.names) > 0 {
		v.name = d.names[0]
	}
	for _, no := range r.deny.networks {
		if no.prefix.Contains(d.to.Addr()) && no.ports.has(d.to.Port()) {
			v.rule, v.reason = no.text, denied
			return v
		}
	}
	switch {
	case never || r.mode == sandbox.NetworkNone:
		if v.reason = noRule; what != "" {
			v.reason = "it is " + what
		}
		return v
	case d.udp && d.to.Port() == portQUIC && (r.mode == sandbox.NetworkRestricted || r.deny.namesAny()):
		v.reason = quic
		return v
	}
	for _, yes := range r.allow.networks {
		if yes.reaches(d.to, what, d.own) {
			v.allowed, v.rule = true, yes.text
			return v
		}
	}
	switch {
	case what != "":
		v.reason = "it is " + what
		return v
	case d.own:
		v.reason = "it is an address of the host"
		return v
	}
	return r.byNames(d, v)
}

// byNames decides about a public address that no rule lists: it is as good as the best of its names.
func (r *Rules) byNames(d destination, v verdict) verdict {
	if len(d.names) == 0 {
		if v.allowed = r.mode == sandbox.NetworkFull; v.allowed {
			v.rule = string(r.mode)
		} else {
			v.reason = noRule
		}
		return v
	}
	first := verdict{}
	for i, name := range d.names {
		one := r.named(name, d.to.Port(), d.udp)
		if one.allowed {
			return one
		}
		if i == 0 {
			first = one
		}
	}
	return first
}

// handsOut decides whether an address may be handed out for a name: what no connection can reach would only mislead.
func (r *Rules) handsOut(a netip.Addr, own bool) bool {
	what, never := classify(a)
	if never {
		return false
	}
	if what == "" && !own {
		return true
	}
	for _, yes := range r.allow.networks {
		if yes.reaches(netip.AddrPortFrom(a, max(yes.ports.from, 1)), what, own) {
			return true
		}
	}
	return false
}
