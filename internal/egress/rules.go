package egress

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	maxRules       = 1000  // in all lists together
	maxConnections = 65535 // a sandbox's address has no more ports
)

// Rules is a compiled policy. It does not change.
type Rules struct {
	mode   sandbox.NetworkMode
	allow  table
	deny   table
	bounds bounds

	opens   table // names whose TLS ends in the gate
	secrets []*secret
}

// bounds are the limits of one gate. A zero of bytes is no limit.
type bounds struct {
	connections    int
	rate           int // new connections a second
	sent, received int64
}

// table is a list of rules, ready to be looked up.
type table struct {
	names    map[string][]*rule
	below    map[string][]*rule // by the name that they are below
	networks []*rule
}

// Compile checks a policy and makes rules of it. Errors are Invalid, and Op names the position: "network.allow[3]".
func Compile(p sandbox.NetworkPolicy) (*Rules, error) {
	r := &Rules{mode: p.Mode, bounds: bounds{p.MaxConnections, p.ConnectionRate, p.MaxSent, p.MaxReceived}}
	if err := r.check(); err != nil {
		return nil, err
	}
	if n := len(p.Allow) + len(p.Deny) + len(p.Inspect); n > maxRules {
		return nil, sandbox.Invalidf("network", "%d rules are more than %d", n, maxRules)
	}
	lists := []struct {
		name    string
		entries []string
		into    *table
	}{{"network.allow", p.Allow, &r.allow}, {"network.deny", p.Deny, &r.deny}}
	allowed := map[string]string{} // text -> where
	for _, list := range lists {
		for i, entry := range list.entries {
			where := fmt.Sprintf("%s[%d]", list.name, i)
			if r.mode == sandbox.NetworkNone {
				return nil, sandbox.Invalidf(where, "mode none reaches nothing, so it has no rules")
			}
			one, err := parseRule(entry)
			if err != nil {
				return nil, sandbox.Invalidf(where, "%.80q: %v", entry, err)
			}
			one.where = where
			if err := fits(&one, list.into, r, allowed); err != nil {
				return nil, err
			}
			list.into.add(&one)
		}
	}
	if r.mode == sandbox.NetworkNone && p.Reads() {
		return nil, sandbox.Invalidf("network", "mode none reaches nothing, so nothing can be read, and no secret is of use")
	}
	for i, entry := range p.Inspect {
		if _, err := r.opening(entry, fmt.Sprintf("network.inspect[%d]", i)); err != nil {
			return nil, err
		}
	}
	if err := r.addSecrets(&p); err != nil {
		return nil, err
	}
	return r, nil
}

// check completes mode and bounds.
func (r *Rules) check() error {
	switch r.mode {
	case "":
		r.mode = sandbox.NetworkNone
	case sandbox.NetworkNone, sandbox.NetworkRestricted, sandbox.NetworkFull:
	default:
		return sandbox.Invalidf("network.mode", "%.40q is not one of none, restricted, full", r.mode)
	}
	b := &r.bounds
	for _, bound := range []struct {
		name  string
		value int64
	}{{"max_connections", int64(b.connections)}, {"connection_rate", int64(b.rate)}, {"max_sent", b.sent}, {"max_received", b.received}} {
		if bound.value < 0 {
			return sandbox.Invalidf("network."+bound.name, "must not be negative")
		}
	}
	if b.connections > maxConnections {
		return sandbox.Invalidf("network.max_connections", "%d is more than %d", b.connections, maxConnections)
	}
	if b.connections == 0 {
		b.connections = sandbox.DefaultConnections
	}
	if b.rate == 0 {
		b.rate = sandbox.DefaultConnectionRate
	}
	return nil
}

// fits refuses a rule that can have no effect, or contradicts another. allowed collects what the allow list says.
func fits(one *rule, list *table, r *Rules, allowed map[string]string) error {
	switch list {
	case &r.allow:
		if one.prefix.IsValid() && neverOpens(one.prefix) {
			what, _ := classify(one.prefix.Addr())
			return sandbox.Invalidf(one.where, "%s is %s, which no rule opens", one.text, what)
		}
		allowed[one.text] = one.where
	case &r.deny:
		if also := allowed[one.text]; also != "" {
			return sandbox.Invalidf(one.where, "%s is in %s too", one.text, also)
		}
	}
	return nil
}

// neverOpens reports whether a whole prefix lies in one range that no rule opens.
func neverOpens(p netip.Prefix) bool {
	for i := range special {
		if special[i].never && special[i].prefix.Bits() <= p.Bits() && special[i].prefix.Contains(p.Addr()) {
			return true
		}
	}
	_, never := classify(p.Addr())
	return p.IsSingleIP() && never
}

func (t *table) add(r *rule) {
	into := &t.names
	switch {
	case r.name == "":
		t.networks = append(t.networks, r)
		return
	case r.below:
		into = &t.below
	}
	if *into == nil {
		*into = map[string][]*rule{}
	}
	(*into)[r.name] = append((*into)[r.name], r)
}

// byName returns the first rule for a canonical name that suits, or nil.
func (t *table) byName(name string, suits func(ports) bool) *rule {
	for _, r := range t.names[name] {
		if suits(r.ports) {
			return r
		}
	}
	if len(t.below) == 0 {
		return nil
	}
	for _, rest, more := strings.Cut(name, "."); more; _, rest, more = strings.Cut(rest, ".") {
		for _, r := range t.below[rest] {
			if suits(r.ports) {
				return r
			}
		}
	}
	return nil
}

// namesAny reports whether the table has a rule for names.
func (t *table) namesAny() bool { return len(t.names)+len(t.below) > 0 }
