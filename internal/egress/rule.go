package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxRule is the longest rule, in bytes: a name, two ports, and room for what IDNA shortens.
const maxRule = 600

// rule is one entry of a list. Either name or prefix is set.
type rule struct {
	text   string // in one form: equal rules have equal texts
	where  string // "network.allow[3]"
	name   string
	below  bool // any name below this one, and not this one
	prefix netip.Prefix
	ports  ports
}

// ports is a range; the zero value is every port.
type ports struct{ from, to uint16 }

func (p ports) all() bool            { return p == ports{} }
func (p ports) has(port uint16) bool { return p.all() || p.from <= port && port <= p.to }

func (p ports) String() string {
	switch {
	case p.all():
		return ""
	case p.from == p.to:
		return fmt.Sprintf(":%d", p.from)
	}
	return fmt.Sprintf(":%d-%d", p.from, p.to)
}

// parseRule reads one rule. Its errors say what is wrong, not where.
func parseRule(s string) (rule, error) {
	if len(s) > maxRule {
		return rule{}, fmt.Errorf("it is longer than %d bytes", maxRule)
	}
	host, rest, err := splitPorts(s)
	if err != nil {
		return rule{}, err
	}
	var r rule
	if r.ports, err = parsePorts(rest); err != nil {
		return rule{}, err
	}
	switch {
	case host == "" || strings.Contains(host, "://"):
		return rule{}, fmt.Errorf("a rule is a name, an address or a prefix, with or without ports, and not a URL")
	case strings.ContainsRune(host, '/'):
		err = r.setPrefix(host)
	case strings.ContainsRune(host, ':'):
		err = r.setAddress(host)
	default:
		if _, no := netip.ParseAddr(host); no == nil {
			err = r.setAddress(host)
		} else {
			err = r.setName(host)
		}
	}
	return r, err
}

// splitPorts separates what a rule is for from its ports. Only a bracketed IPv6 address can have ports.
func splitPorts(s string) (host, ports string, err error) {
	if inside, ok := strings.CutPrefix(s, "["); ok {
		host, rest, closed := strings.Cut(inside, "]")
		if !closed || !strings.ContainsRune(host, ':') {
			return "", "", fmt.Errorf("brackets hold an IPv6 address or prefix")
		}
		if rest == "" {
			return host, "", nil
		}
		if ports, ok = strings.CutPrefix(rest, ":"); !ok || ports == "" {
			return "", "", fmt.Errorf("after the bracket comes a colon with ports, or nothing")
		}
		return host, ports, nil
	}
	if strings.Count(s, ":") != 1 || strings.Contains(s, "://") {
		return s, "", nil
	}
	host, ports, _ = strings.Cut(s, ":")
	if ports == "" {
		return "", "", fmt.Errorf("after the colon comes a port or a range of ports")
	}
	return host, ports, nil
}

func parsePorts(s string) (ports, error) {
	if s == "" {
		return ports{}, nil
	}
	low, high, isRange := strings.Cut(s, "-")
	if !isRange {
		high = low
	}
	from, err := parsePort(low)
	if err != nil {
		return ports{}, err
	}
	to, err := parsePort(high)
	if err != nil {
		return ports{}, err
	}
	if from > to {
		return ports{}, fmt.Errorf("the range of ports ends before it begins")
	}
	return ports{from, to}, nil
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%.20q is not a port from 1 to 65535", s)
	}
	return uint16(n), nil
}

func (r *rule) setName(host string) error {
	r.name = host
	if name, ok := strings.CutPrefix(host, "*."); ok {
		r.name, r.below = name, true
	} else if strings.ContainsRune(host, '*') {
		return fmt.Errorf("a star stands only for all names below one, as in *.example.org")
	}
	name, err := canonicalName(r.name)
	if err != nil {
		return fmt.Errorf("%.80q is not a name: %w", r.name, err)
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761
		return fmt.Errorf("localhost is the sandbox itself")
	}
	r.name, r.text = name, name+r.ports.String()
	if r.below {
		r.text = "*." + r.text
	}
	return nil
}

func (r *rule) setAddress(host string) error {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("%.60q is not an address; an IPv6 address with ports stands in brackets", host)
	}
	if a.Zone() != "" {
		return fmt.Errorf("an address of a sandbox's network has no zone")
	}
	if err := r.setNetwork(netip.PrefixFrom(a, a.BitLen())); err != nil {
		return err
	}
	r.text = a.String() + r.ports.String()
	if a.Is6() && !r.ports.all() {
		r.text = "[" + a.String() + "]" + r.ports.String()
	}
	return nil
}

func (r *rule) setPrefix(host string) error {
	p, err := netip.ParsePrefix(host)
	if err != nil {
		return fmt.Errorf("%.60q is not a prefix such as 10.0.0.0/8", host)
	}
	if p.Masked() != p {
		return fmt.Errorf("%s has bits after its prefix; that network is %s", p, p.Masked())
	}
	if err := r.setNetwork(p); err != nil {
		return err
	}
	r.text = p.String() + r.ports.String()
	if p.IsSingleIP() {
		return r.setAddress(p.Addr().String())
	}
	if p.Addr().Is6() && !r.ports.all() {
		r.text = "[" + p.String() + "]" + r.ports.String()
	}
	return nil
}

func (r *rule) setNetwork(p netip.Prefix) error {
	if p.Addr().Is4In6() {
		return fmt.Errorf("write an IPv4 address as four decimal numbers")
	}
	r.prefix = p
	return nil
}

// reaches reports whether an allowing rule for a network opens this address. A prefix wider than a range that is not public does not: who
// writes 0.0.0.0/0 means the internet.
func (r *rule) reaches(to netip.AddrPort, what string, own bool) bool {
	if !r.prefix.Contains(to.Addr()) || !r.ports.has(to.Port()) {
		return false
	}
	return (what == "" || isSpecial(r.prefix)) && (!own || r.prefix.IsSingleIP())
}
