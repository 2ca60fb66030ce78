package rules

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestHostItself: only a rule that names the host and a port opens the host, in every mode and under every ceiling.
func TestHostItself(t *testing.T) {
	full := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Allow: []string{"host:5432"}}
	denied := full
	denied.Deny = []string{"host"}
	for _, c := range []struct {
		policy  sandbox.NetworkPolicy
		to      string
		allowed bool
	}{
		{allow("host:5432"), "198.18.0.1:5432", true}, {allow("host:5432"), "[fd00:6675:6d65::1]:5432", true},
		{full, "198.18.0.1:5432", true}, {full, "198.18.0.1:5433", false},
		{allow("host:5432"), "198.18.0.1:5433", false},
		{allow("host:5000-5999"), "198.18.0.1:5432", true}, {denied, "198.18.0.1:5432", false},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}, "198.18.0.1:5432", false},
		{allow("0.0.0.0/0", "*.host:5432"), "198.18.0.1:5432", false},
		{below(t, allow("host:5432"), "public", "host:5432"), "198.18.0.1:5432", true},
		{below(t, full, "public"), "198.18.0.1:5432", false},
	} {
		r := compile(t, c.policy)
		for _, udp := range []bool{false, true} {
			d := Destination{To: netip.MustParseAddrPort(c.to), UDP: udp}
			if v := r.CheckName(d, "host"); v.Allowed != c.allowed || v.ByName {
				t.Errorf("%s by %v of %v: %+v", c.to, c.policy.Allow, c.policy.Ceiling, v)
			}
		}
		lists := strings.Contains(strings.Join(c.policy.Allow, " "), "host:")
		if c.policy.Deny == nil && r.DecideLookup("host").Allowed && !lists {
			t.Errorf("%v resolves the host", c.policy.Allow)
		}
	}
	for _, p := range []sandbox.NetworkPolicy{allow("host"), allow("host:53"), allow("host:1-99"),
		{Mode: sandbox.NetworkFull, Inspect: []string{"host"}},
		withSecret(sandbox.Secret{Name: "A", Hosts: []string{"host:8443"}, Value: "long enough"})} {
		if _, err := Compile(p); sandbox.KindOf(err) != sandbox.Invalid {
			t.Errorf("%+v: %v", p, err)
		}
	}
	err := CheckWithin(below(t, allow("host:5432"), "public"), hostAt(""))
	if sandbox.FixOf(err) != "have the operator start the server with --network-allow public,host:5432" {
		t.Errorf("%v", err)
	}
}

// TestCorrected: a rule that cannot be one is refused with the rule that it probably means.
func TestCorrected(t *testing.T) {
	for entry, want := range map[string]string{
		"http://api.example.org": "api.example.org:80", "https://u:p@Api.example.org/x?y#z": "Api.example.org:443",
		"https://api.example.org:8443/": "api.example.org:8443", "ftp://a.example/": "a.example",
		"a.example/path": "a.example", "a.example:80/path": "a.example:80",
		"http://[2001:470::1]:8080": "[2001:470::1]:8080",
		"127.0.0.1:18100":           "host:18100", "localhost:3000": "host:3000", "http://localhost:3000/": "host:3000",
		"[::1]:80": "host:80", "127.0.0.1": "host:PORT", "localhost": "host:PORT", "host": "host:PORT",
		"http://127.0.0.1:53": "", "a b": "", "10.0.0.0/33": "", "1.2.3": "", "http://": "", "224.0.0.1": "",
	} {
		_, err := Compile(allow(entry))
		fix := ""
		if want != "" {
			fix = "write it as a rule: --allow " + want
		}
		if got := wording.CommandLine.Fix(err); err == nil || got != fix {
			t.Errorf("%s: %q, want %q", entry, got, fix)
		}
	}
	_, err := Compile(allow("http://a.example"))
	if got := wording.HTTP.Fix(err); got != `write it as a rule: "network": {"allow": ["a.example:80"]}` {
		t.Errorf("%s", got)
	}
}
