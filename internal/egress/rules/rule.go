package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxRule is the longest rule, in bytes: a name, two ports, and room for what IDNA shortens.
const maxRule = 600

// rule is one entry of a list. Either name or prefix is set.
type rule struct {
	name   string // canonical; "*.example.org" matches every name below example.org
	prefix netip.Prefix
	class  string // of the prefix
	ports  ports
}

// String returns the canonical text: equal rules have equal texts.
func (r *rule) String() string {
	host := r.name
	if host == "" {
		host = r.prefix.String()
		if r.prefix.IsSingleIP() {
			host = r.prefix.Addr().String()
		}
		if r.prefix.Addr().Is6() && !r.ports.all() {
			host = "[" + host + "]"
		}
	}
	return host + r.ports.String()
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

// parseAt parses the rule at a position of the policy, such as "network.allow[3]".
func parseAt(where, entry string) (rule, error) {
	r, err := parseRule(entry)
	if err != nil {
		e := sandbox.Invalidf(where, "%.80q: %v", entry, err)
		e.Fixes = rewrite(where, correct(entry))
		return r, e
	}
	return r, nil
}

// parseAllowed parses a rule that opens something.
func parseAllowed(where, entry string) (rule, error) {
	one, err := parseAt(where, entry)
	if err != nil {
		return one, err
	}
	if class, never := classify(one.prefix); one.name == "" && never {
		e := sandbox.Invalidf(where, "%s is %s, which no rule opens", &one, class)
		e.Fixes = rewrite(where, correct(entry))
		return one, e
	}
	return one, checkHost(where, &one)
}

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
	_, notAddress := netip.ParseAddr(host)
	switch {
	case host == "" || strings.Contains(host, "://"):
		err = errors.New("a rule is a name, an address or a prefix, with or without ports, and not a URL")
	case strings.ContainsAny(host, "/:") || notAddress == nil:
		r.prefix, err = parseNetwork(host)
	default:
		r.name, err = parseName(host)
	}
	if r.name == "" {
		r.class, _ = classify(r.prefix)
	}
	return r, err
}

// splitPorts separates the host of a rule from its ports. Only a bracketed IPv6 address can have ports.
func splitPorts(s string) (host, ports string, err error) {
	if inside, ok := strings.CutPrefix(s, "["); ok {
		host, rest, closed := strings.Cut(inside, "]")
		if !closed || !strings.ContainsRune(host, ':') {
			return "", "", errors.New("brackets hold an IPv6 address or prefix")
		}
		if rest == "" {
			return host, "", nil
		}
		if ports, ok = strings.CutPrefix(rest, ":"); !ok || ports == "" {
			return "", "", errors.New("only a colon and ports may follow the bracket")
		}
		return host, ports, nil
	}
	if strings.Count(s, ":") != 1 || strings.Contains(s, "://") {
		return s, "", nil
	}
	host, ports, _ = strings.Cut(s, ":")
	if ports == "" {
		return "", "", errors.New("a port or a range of ports must follow the colon")
	}
	return host, ports, nil
}

func parsePorts(s string) (p ports, err error) {
	if s == "" {
		return ports{}, nil
	}
	low, high, isRange := strings.Cut(s, "-")
	if p.from, err = ParsePort(low); err != nil {
		return ports{}, err
	}
	p.to = p.from
	if isRange {
		p.to, err = ParsePort(high)
	}
	if err == nil && p.from > p.to {
		err = errors.New("the range of ports ends before it begins")
	}
	return p, err
}

// ParsePort parses a port from 1 to 65535 without sign and leading zeros.
func ParsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%.20q is not a port from 1 to 65535", s)
	}
	return uint16(n), nil
}

func parseName(host string) (string, error) {
	name, below := strings.CutPrefix(host, "*.")
	if strings.ContainsRune(name, '*') {
		return "", errors.New("a star only matches all names below one, as in *.example.org")
	}
	name, err := CanonicalName(name)
	switch {
	case err != nil:
		return "", fmt.Errorf("%.80q is not a name: %w", host, err)
	case name == "localhost" || strings.HasSuffix(name, ".localhost"): // RFC 6761
		return "", errors.New("localhost is the sandbox itself")
	case below:
		name = "*." + name
	}
	return name, nil
}

func parseNetwork(host string) (p netip.Prefix, err error) {
	if strings.ContainsRune(host, '/') {
		p, err = netip.ParsePrefix(host)
	} else {
		var a netip.Addr
		a, err = netip.ParseAddr(host)
		p = netip.PrefixFrom(a, a.BitLen())
		if a.Zone() != "" {
			return p, errors.New("an address in a sandbox's network has no zone")
		}
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("%.60q is not an address or a prefix such as 10.0.0.0/8; put brackets around "+
			"an IPv6 address with ports", host)
	case p.Masked() != p:
		return p, fmt.Errorf("%s has bits after its prefix; that network is %s", p, p.Masked())
	case p.Addr().Is4In6():
		return p, errors.New("write an IPv4 address as four decimal numbers")
	}
	return p, nil
}

// opens reports whether an allowing rule for a network opens an address of this class. A prefix wider than a special
// range does not open the range: 0.0.0.0/0 means the internet, and 100.64.0.0/10 not the metadata service in it.
func (r *rule) opens(to netip.AddrPort, class string, route Route) bool {
	if !r.prefix.Contains(to.Addr()) || !r.ports.has(to.Port()) {
		return false
	}
	return (class == "" || r.class == class) && (route == RouteAway || r.prefix.IsSingleIP())
}
