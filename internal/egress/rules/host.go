package rules

import (
	"net/netip"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// HostName is the name of the host itself. In a sandbox it resolves to the gate's address, whose connections go to the
// loopback address of the host. Only a rule with this name and ports opens it, in every mode.
const HostName = "host"

// portDNS at the gate's address is its resolver.
const portDNS = 53

// IsGateway reports whether an address is the gate's own.
func IsGateway(a netip.Addr) bool { return a == sandbox.LinkGateway4 || a == sandbox.LinkGateway6 }

// checkHost refuses an allowing rule for the host that could mean more than its user knows.
func checkHost(where string, r *rule) error {
	switch {
	case r.name != HostName:
		return nil
	case r.ports.all():
		e := sandbox.Invalidf(where, "%s is this host itself, whose ports must be listed", HostName)
		e.Fixes = rewrite(where, HostName+":PORT")
		return e
	case r.ports.has(portDNS):
		return sandbox.Invalidf(where, "port %d of %s is the resolver of the sandbox", portDNS, HostName)
	}
	return nil
}

// decideHost decides about a destination at the gate's address.
func (r *Rules) decideHost(d Destination) Verdict {
	if _, listed := r.allow.names[HostName]; !listed {
		return Verdict{Reason: Is("the sandbox's own network")}
	}
	return r.decideNameAt(HostName, d.To.Port(), d.UDP)
}
