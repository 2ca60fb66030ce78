package rules

import (
	"net/netip"
	"slices"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Verdict is the decision about a name or a destination.
type Verdict struct {
	Allowed bool
	ByName  bool   // allowed only because of its name: CheckName must agree with the name that the connection states
	Name    string // of the destination, where known
	Rule    string // the rule that decided, "" where none did
	Reason  string // of a refusal
}

// Reasons of refusals.
const (
	NoRule      = sandbox.NetworkNoRule
	Denied      = "a rule denies it"
	QUIC        = "QUIC hides the name"
	NotResolved = "the gate did not resolve that name to this address"
)

// Is returns the reason of a refusal of an address because of its class.
func Is(class string) string { return "it is " + class }

// AddressIs returns the reason of a refusal of a name because of the class of its address.
func AddressIs(a netip.Addr, class string) string {
	return "its address " + a.String() + " is " + class
}

// AddressHidden returns that reason without the address, which the operator's ceiling keeps from the caller.
func AddressHidden(class string) string {
	return "its address is " + class + ", which the operator of this server does not open"
}

// Refusal is an error with the reason for which the policy refuses a connection.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Route is where this host delivers packets to an address: RouteAway, or the class of the address.
type Route string

// The routes of the host. A rule that lists an address opens RouteHost; nothing opens the others but RouteAway.
const (
	RouteAway      Route = "" // to another machine, or nowhere
	RouteHost      Route = "an address of the host"
	RouteBroadcast Route = "a broadcast address of the host's network"
	RouteAnycast   Route = "an anycast address of the host"
	RouteMulticast Route = "a multicast address"
	RouteUnknown   Route = "an address whose route the host does not report"
)

// never reports whether no rule opens addresses with this route.
func (r Route) never() bool { return r != RouteAway && r != RouteHost }

// Destination is the target of a connection or a datagram.
type Destination struct {
	To    netip.AddrPort // canonical
	UDP   bool
	Route Route    // of this host to the address
	Names []string // that the gate resolved to this address, the latest first
}

// DecideLookup decides whether a canonical name may be resolved: some port of it must be allowed.
func (r *Rules) DecideLookup(name string) Verdict {
	return r.under(r.decideLookup(name), func(c *Rules) Verdict { return c.decideLookup(name) })
}

func (r *Rules) decideLookup(name string) Verdict {
	return r.decideName(name, ports.all, func(ports) bool { return true })
}

// decideName decides about a canonical name by the rules whose ports suit.
func (r *Rules) decideName(name string, denies, allows func(ports) bool) Verdict {
	if no := r.deny.find(name, denies); no != nil {
		return Verdict{Name: name, Rule: no.String(), Reason: Denied}
	}
	switch {
	case r.mode == sandbox.NetworkFull && name != HostName:
		return Verdict{Allowed: true, Name: name, Rule: string(r.mode)}
	case r.mode == sandbox.NetworkNone:
		return Verdict{Name: name, Reason: NoRule}
	}
	if yes := r.allow.find(name, allows); yes != nil { // no other host has the address of this one
		return Verdict{Allowed: true, ByName: name != HostName, Name: name, Rule: yes.String()}
	}
	return Verdict{Name: name, Reason: NoRule}
}

// decideNameAt decides about a canonical name at a port. UDP requires a rule of the policy that gives the port.
func (r *Rules) decideNameAt(name string, port uint16, udp bool) Verdict {
	return r.decideName(name, func(p ports) bool { return p.has(port) },
		func(p ports) bool { return p.has(port) && (!udp || r.isCeiling || !p.all()) })
}

// Decide decides about a destination.
func (r *Rules) Decide(d Destination) Verdict {
	return r.under(r.decide(d), func(c *Rules) Verdict { return c.decide(d) })
}

// refusesQUIC reports whether datagrams to a port are refused: names decide there, or the gate reads the requests of
// some name, and QUIC would hide both.
func (r *Rules) refusesQUIC(port uint16) bool {
	return port == portHTTPS && (r.mode == sandbox.NetworkRestricted || r.DeniesNames()) || r.InterceptsPort(port)
}

func (r *Rules) decide(d Destination) Verdict {
	if IsGateway(d.To.Addr()) {
		return r.decideHost(d)
	}
	class, never := Classify(d.To.Addr())
	v := Verdict{}
	if len(d.Names) > 0 {
		v.Name = d.Names[0]
	}
	inner := BehindNAT64(d.To.Addr())
	for _, no := range r.deny.networks {
		if (no.prefix.Contains(d.To.Addr()) || no.prefix.Contains(inner)) && no.ports.has(d.To.Port()) {
			v.Rule, v.Reason = no.String(), Denied
			return v
		}
	}
	switch {
	case (never || r.mode == sandbox.NetworkNone) && class != "":
		v.Reason = Is(class)
		return v
	case r.mode == sandbox.NetworkNone:
		v.Reason = NoRule
		return v
	case d.Route.never():
		v.Reason = Is(string(d.Route))
		return v
	case d.UDP && r.refusesQUIC(d.To.Port()):
		v.Reason = QUIC
		return v
	}
	for _, yes := range r.allow.networks {
		if yes.opens(d.To, class, d.Route) {
			v.Allowed, v.Rule = true, yes.String()
			return v
		}
	}
	if class != "" || d.Route != RouteAway {
		d.Names = slices.DeleteFunc(slices.Clone(d.Names), func(name string) bool {
			return !trustable(class, d.Route) || !r.trusted.has(name, d.To.Port())
		})
	}
	switch {
	case len(d.Names) > 0:
		return r.decideByNames(d)
	case class != "":
		v.Reason = Is(class)
	case d.Route != RouteAway:
		v.Reason = Is(string(d.Route))
	case r.mode == sandbox.NetworkFull:
		v.Allowed, v.Rule = true, string(r.mode)
	default:
		v.Reason = NoRule
	}
	return v
}

// decideByNames decides about a public address that no rule lists. One allowed name is enough; else the verdict is that
// about the latest name.
func (r *Rules) decideByNames(d Destination) (v Verdict) {
	for i, name := range d.Names {
		one := r.decideNameAt(name, d.To.Port(), d.UDP)
		if one.Allowed {
			return one
		}
		if i == 0 {
			v = one
		}
	}
	return v
}

// DeniesNames reports whether some name is denied, so that names matter even in mode full.
func (r *Rules) DeniesNames() bool { return r.deny.hasNames() }

// MayResolveTo decides whether the resolver may return an address for a canonical name. An address that no connection
// can reach would mislead.
func (r *Rules) MayResolveTo(name string, a netip.Addr, route Route) bool {
	return r.mayResolveTo(name, a, route) && (r.ceiling == nil || r.ceiling.rules.mayResolveTo(name, a, route))
}

// MayReveal decides whether the log and hints may show an address of a canonical name that may not be returned. The
// addresses of a company's names are not for everyone who may name them.
func (r *Rules) MayReveal(name string, a netip.Addr, route Route) bool {
	return r.ceiling == nil || r.ceiling.rules.mayResolveTo(name, a, route)
}

func (r *Rules) mayResolveTo(name string, a netip.Addr, route Route) bool {
	class, never := Classify(a)
	return !never && !route.never() && (class == "" && route == RouteAway ||
		trustable(class, route) && r.trusted.find(name, func(ports) bool { return true }) != nil ||
		slices.ContainsFunc(r.allow.networks, func(yes rule) bool {
			return yes.opens(netip.AddrPortFrom(a, max(yes.ports.from, 1)), class, route)
		}))
}
