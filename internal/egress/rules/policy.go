package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Rules is a compiled network policy. It does not change.
type Rules struct {
	Bounds   Bounds
	Secrets  []Secret
	Hidden   []Secret // Secrets, and those whose values are only removed from answers
	ReadOnly bool     // requests that the gate reads in TLS must be GET or HEAD

	mode      sandbox.NetworkMode
	allow     table
	deny      table
	trusted   table
	intercept table // names whose TLS ends in the gate

	ceiling   *ceiling // nil is none
	isCeiling bool     // they are the rules of a ceiling
}

// Bounds are the limits of one gate. Zero bytes are no limit.
type Bounds struct {
	Connections    int
	Rate           int // new connections a second
	Sent, Received int64
}

// table is a list of rules, indexed for lookups.
type table struct {
	names    map[string][]rule // by name
	below    map[string][]rule // "*.example.org" by "example.org"
	networks []rule
}

// Compile checks a policy and compiles it. Errors are Invalid, and Op names the position: "network.allow[3]".
func Compile(p sandbox.NetworkPolicy) (*Rules, error) {
	r := &Rules{mode: p.Mode, Bounds: Bounds{p.MaxConnections, p.ConnectionRate, p.MaxSent, p.MaxReceived},
		ReadOnly: p.ReadOnly}
	if err := r.checkMode(&p); err != nil {
		return nil, err
	}
	if err := r.Bounds.complete(); err != nil {
		return nil, err
	}
	n := len(p.Allow) + len(p.Deny) + len(p.Inspect)
	for _, s := range p.Secrets {
		n += len(s.Hosts)
	}
	if err := sandbox.CheckRules(n); err != nil {
		return nil, err
	}
	if p.Ceiling != nil {
		if err := r.lower(p.Ceiling); err != nil {
			return nil, err
		}
	}
	allowed := map[string]string{} // rule -> where
	for i, entry := range p.Allow {
		where := fmt.Sprintf("network.allow[%d]", i)
		one, err := parseAllowed(where, entry)
		if err != nil {
			return nil, err
		}
		allowed[one.String()] = where
		r.allow.add(one)
	}
	for i, entry := range p.Deny {
		where := fmt.Sprintf("network.deny[%d]", i)
		one, err := parseAt(where, entry)
		if err != nil {
			return nil, err
		}
		if also := allowed[one.String()]; also != "" {
			return nil, sandbox.Invalidf(where, "%s is in %s too", &one, also)
		}
		r.deny.add(one)
	}
	for i, entry := range p.Trusted {
		one, err := parseAt(fmt.Sprintf("network.trusted[%d]", i), entry)
		if err != nil {
			return nil, err
		}
		r.trusted.add(one)
	}
	for i, entry := range p.Inspect {
		if _, err := r.addIntercepted(fmt.Sprintf("network.inspect[%d]", i), entry); err != nil {
			return nil, err
		}
	}
	if err := r.addSecrets(p.Secrets); err != nil {
		return nil, err
	}
	return r, r.addFormer(p.Former)
}

// lower bounds the rules by a ceiling.
func (r *Rules) lower(c *sandbox.NetworkCeiling) (err error) {
	if height(r.mode) > height(c.Mode) {
		r.mode = c.Mode
	}
	r.ceiling, err = compileCeiling(c)
	return err
}

func (r *Rules) checkMode(p *sandbox.NetworkPolicy) error {
	switch r.mode {
	case sandbox.NetworkRestricted, sandbox.NetworkFull:
		return nil
	case "", sandbox.NetworkNone:
		r.mode = sandbox.NetworkNone
	default:
		return sandbox.Invalidf("network.mode", "%.40q is not one of none, restricted, full", r.mode)
	}
	switch {
	case len(p.Allow) > 0:
		return sandbox.Invalidf("network.allow[0]", "mode none has no rules, because nothing can be reached")
	case len(p.Deny) > 0:
		return sandbox.Invalidf("network.deny[0]", "mode none has no rules, because nothing can be reached")
	case p.Reads():
		return sandbox.Invalidf("network", "mode none cannot have secrets or inspect, because nothing can be reached")
	}
	return nil
}

// complete checks the bounds and fills in defaults.
func (b *Bounds) complete() error {
	for _, bound := range []struct {
		name  string
		value int64
	}{
		{"connection_rate", int64(b.Rate)}, {"max_sent", b.Sent}, {"max_received", b.Received},
	} {
		if bound.value < 0 {
			return sandbox.Invalidf("network."+bound.name, "must not be negative")
		}
	}
	if b.Connections == 0 {
		b.Connections = sandbox.DefaultConnections
	}
	if err := sandbox.CheckConnections(b.Connections); err != nil {
		return err
	}
	if b.Rate == 0 {
		b.Rate = sandbox.DefaultConnectionRate
	}
	return nil
}

func (t *table) add(r rule) {
	if r.name == "" {
		t.networks = append(t.networks, r)
		return
	}
	if t.names == nil {
		t.names, t.below = map[string][]rule{}, map[string][]rule{}
	}
	if name, isBelow := strings.CutPrefix(r.name, "*."); isBelow {
		t.below[name] = append(t.below[name], r)
	} else {
		t.names[name] = append(t.names[name], r)
	}
}

// find returns the first rule for a canonical name whose ports suit, or nil. It copies no part of the name, which may
// have a hundred dots.
func (t *table) find(name string, suits func(ports) bool) *rule {
	list := t.names[name]
	for more := true; more; list = t.below[name] {
		if i := slices.IndexFunc(list, func(r rule) bool { return suits(r.ports) }); i >= 0 {
			return &list[i]
		}
		if len(t.below) == 0 {
			return nil
		}
		_, name, more = strings.Cut(name, ".")
	}
	return nil
}

// hasNames reports whether the table has a rule with a name.
func (t *table) hasNames() bool { return len(t.names)+len(t.below) > 0 }

// has reports whether the table has a rule for a canonical name at a port.
func (t *table) has(name string, port uint16) bool {
	return t.find(name, func(p ports) bool { return p.has(port) }) != nil
}
