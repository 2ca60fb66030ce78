package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// AboveCeiling is the reason of a refusal by the operator's ceiling.
const AboveCeiling = "the operator of this server does not allow it"

// maxShown is the most rules of a ceiling that an error quotes.
const maxShown = 8

// ceiling is a compiled sandbox.NetworkCeiling.
type ceiling struct {
	sandbox.NetworkCeiling
	list []rule
	// rules decide about what a policy has allowed. They refuse what no policy within the ceiling could allow, also if
	// the policy is of a server with another ceiling.
	rules Rules
}

// CheckCeiling completes a ceiling and checks it. Errors are Invalid, and Op is "max_network" or "network_allow". The
// default list is NetworkPublic. The default mode is full with NetworkPublic, else restricted.
func CheckCeiling(c *sandbox.NetworkCeiling) error {
	if c.Allow == nil {
		c.Allow = sandbox.DefaultNetworkCeiling.Allow
	}
	switch highest := c.HighestMode(); {
	case c.Mode == "":
		c.Mode, c.DefaultMode = highest, true
	case c.Mode == sandbox.NetworkFull && highest != sandbox.NetworkFull:
		e := sandbox.Invalidf("max_network", "mode full opens all public addresses, which are not listed")
		e.Fix = "add " + sandbox.NetworkPublic + " to the list, or make restricted the highest mode"
		return e
	case height(c.Mode) < 0:
		return sandbox.Invalidf("max_network", "%.40q is not one of none, restricted, full", c.Mode)
	}
	_, err := compileCeiling(c)
	return err
}

func compileCeiling(c *sandbox.NetworkCeiling) (*ceiling, error) {
	compiled := &ceiling{NetworkCeiling: *c, rules: Rules{mode: sandbox.NetworkRestricted, isCeiling: true}}
	for _, entry := range c.Allow {
		if entry == sandbox.NetworkPublic {
			compiled.rules.mode = sandbox.NetworkFull
			continue
		}
		one, err := parseAllowed("network_allow", entry)
		if err != nil {
			return nil, err
		}
		compiled.list = append(compiled.list, one)
		compiled.rules.allow.add(one)
	}
	if c.Mode == sandbox.NetworkNone {
		compiled.rules.mode = c.Mode
	}
	return compiled, nil
}

// height orders the modes. It is negative for an unknown one.
func height(mode sandbox.NetworkMode) int {
	return slices.Index([]sandbox.NetworkMode{sandbox.NetworkNone, sandbox.NetworkRestricted, sandbox.NetworkFull},
		mode)
}

// CheckWithin refuses a policy that opens more than its ceiling. route returns the host's route to an address. Errors
// are Invalid, and Op names the position: "network.allow[3]". The policy must compile.
func CheckWithin(p sandbox.NetworkPolicy, route func(netip.Addr) Route) error {
	if p.Ceiling == nil || p.Mode == "" || p.Mode == sandbox.NetworkNone {
		return nil
	}
	c, err := compileCeiling(p.Ceiling)
	if err != nil {
		return err
	}
	if height(p.Mode) > height(c.Mode) {
		whose := "this server's"
		if c.OfKey {
			whose = "the API key's"
		}
		e := sandbox.Invalidf("network.mode", "%s is above %s maximum of %s", p.Mode, whose, c.Mode)
		e.Fix = fmt.Sprintf("use %s, or %s", c.Mode, c.raise("max-network", string(p.Mode)))
		return e
	}
	for i, entry := range p.Allow {
		if err := c.check(fmt.Sprintf("network.allow[%d]", i), entry, route); err != nil {
			return err
		}
	}
	for i, s := range p.Secrets {
		for j, host := range s.Hosts {
			if one, err := parseRule(host); err == nil && one.ports.all() { // as in addIntercepted
				one.ports = ports{portHTTPS, portHTTPS}
				host = one.String()
			}
			if err := c.check(fmt.Sprintf("network.secrets[%d].hosts[%d]", i, j), host, route); err != nil {
				return err
			}
		}
	}
	return nil
}

// check refuses a rule at a position of the policy that the ceiling does not contain.
func (c *ceiling) check(where, entry string, route func(netip.Addr) Route) error {
	one, err := parseAt(where, entry)
	if err != nil {
		return err
	}
	class, own := "", false
	if one.name == "" {
		class, _ = classify(one.prefix)
		own = one.prefix.IsSingleIP() && route(one.prefix.Addr()) == RouteHost
	}
	if own {
		class = string(RouteHost)
	}
	if one.name == HostName {
		class = "this host itself"
	}
	isPublic := c.rules.mode == sandbox.NetworkFull && class == ""
	if isPublic || slices.ContainsFunc(c.list, func(most rule) bool {
		return most.contains(&one) && (!own || most.prefix.IsSingleIP())
	}) {
		return nil
	}
	e := sandbox.Invalidf(where, "this server does not open %s", &one)
	if class != "" {
		e.Msg += ", which is " + class
	}
	list := slices.Concat(c.Allow, []string{one.String()})
	if len(c.Allow) > maxShown {
		list = []string{"...", one.String()}
	}
	e.Fix = c.raise("network-allow", strings.Join(list, ","))
	return e
}

// raise returns how the operator can raise the ceiling: by a flag of the server, or an option of an API key.
func (c *ceiling) raise(option, value string) string {
	if c.OfKey {
		return "have the operator give the API key " + option + "=" + value
	}
	return "have the operator start the server with --" + option + " " + value
}

// MayList reports whether the operator's ceiling lets a policy list a rule. route returns the host's route to an
// address. A name without a port may be listed at some port.
func (r *Rules) MayList(entry string, route func(netip.Addr) Route) bool {
	if r.ceiling == nil {
		return true
	}
	name, port, hasPort := strings.Cut(entry, ":")
	if name == HostName && (!hasPort || port == "PORT") {
		return r.ceiling.rules.decideLookup(HostName).Allowed
	}
	if one, err := parseRule(entry); err == nil && one.name != "" && one.ports.all() {
		return r.ceiling.rules.decideLookup(one.name).Allowed
	}
	return r.ceiling.check("", entry, route) == nil
}

// contains reports whether a rule opens all that another one opens.
func (r *rule) contains(one *rule) bool {
	if !r.ports.all() && (one.ports.all() || one.ports.from < r.ports.from || one.ports.to > r.ports.to) {
		return false
	}
	if r.name != "" {
		below, isBelow := strings.CutPrefix(r.name, "*")
		return one.name == r.name || isBelow && strings.HasSuffix(one.name, below)
	}
	if one.name != "" || r.prefix.Bits() > one.prefix.Bits() || !r.prefix.Contains(one.prefix.Addr()) {
		return false
	}
	return one.class == "" || one.class == r.class
}

// under returns the verdict of a policy, or the refusal of its ceiling.
func (r *Rules) under(v Verdict, decide func(*Rules) Verdict) Verdict {
	if r.ceiling == nil || !v.Allowed {
		return v
	}
	most := decide(&r.ceiling.rules)
	if !most.Allowed {
		v.Allowed, v.Reason = false, AboveCeiling
	}
	v.ByName = v.ByName || most.ByName
	return v
}
