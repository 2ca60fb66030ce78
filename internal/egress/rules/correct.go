package rules

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// rewrite is the fix to write a rule in another form, if there is one. where is the rule's position.
func rewrite(where, form string) []sandbox.Hint {
	if form == "" {
		return nil
	}
	param, _, _ := strings.Cut(where, "[")
	return []sandbox.Hint{sandbox.FixParam{Param: param, Values: []string{form}, Purpose: "write it as a rule"}}
}

// correct returns the rule that an entry probably means: the host of a URL, or the host itself instead of its loopback
// address. It is "" if there is none.
func correct(entry string) string {
	if len(entry) > maxRule {
		return ""
	}
	host, port := entry, ""
	if u, err := url.Parse(entry); err == nil && u.Host != "" && strings.Contains(entry, "://") {
		host = u.Hostname()
		if port = u.Port(); port == "" {
			port = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443"}[u.Scheme]
		}
	} else {
		before, after, _ := strings.Cut(entry, "/")
		if !isNumber(after) || after == "" { // else it is the length of a prefix
			host = before
		}
		if h, p, err := splitPorts(host); err == nil {
			host, port = h, p
		}
	}
	if isLoopback(host) {
		if host = HostName; port == "" {
			port = "PORT"
			return host + ":" + port
		}
	}
	form := host
	if port != "" {
		form = net.JoinHostPort(host, port)
	}
	if one, err := parseRule(form); err != nil || form == entry || checkHost("", &one) != nil {
		return ""
	}
	return form
}

// isLoopback reports whether a host in a rule is the machine that names it.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (a.Unmap().IsLoopback() || a.IsUnspecified())
}
