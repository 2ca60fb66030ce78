package rules

import (
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func compile(t testing.TB, policy sandbox.NetworkPolicy) *Rules {
	t.Helper()
	r, err := Compile(policy)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func allow(rules ...string) sandbox.NetworkPolicy {
	return sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: rules}
}

func withSecret(s sandbox.Secret) sandbox.NetworkPolicy {
	return sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Secrets: []sandbox.Secret{s}}
}

// TestBadRules refuses each with its position.
func TestBadRules(t *testing.T) {
	for _, bad := range []string{
		"", " ", "*", "*.", "a.*.b", "*a.b", "**.a", ".a.b", "a..b", "-a.b", "a-.b", "a b", "a.b ", "a\x00b.c", "a%2eb",
		"a@b.c", "a#b", "a.b..",
		"https://a.b", "a.b/c", "a.b:", "a.b:0", "a.b:65536", "a.b:080", "a.b:+80", "a.b:9-8", "a.b:1-", "a.b:1-2-3",
		"a.b:80:81",
		"xn--\u00fc.b", "xn--a.b",
		"localhost", "x.localhost", strings.Repeat("a", 64) + ".b", strings.Repeat("a.", 130) + "b",
		"127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "010.0.0.1", "1.2.3", "1.2.3.4.5", "1.2.3.256",
		"a.0x10",
		"a.1",
		"10.0.0.1/8", "10.0.0.0/33", "1.2.3.4/", "[1.2.3.4]:80", "[::1", "[2001:470::1]80", "[2001:470::1]:",
		"fe80::1%eth0",
		"::ffff:10.0.0.1",
		"::ffff:a00:1", "127.0.0.1", "127.0.0.0/8", "127.0.0.1:80", "0.0.0.0", "::", "::1", "224.0.0.1",
		"255.255.255.255",
		"ff02::1",
		"::10.0.0.1",
		"64:ff9b::a00:1", "64:ff9b:1::1", "2002:a00:1::", "2001:0:a00:1::", "198.18.0.1", "fd00:6675:6d65::1",
	} {
		_, err := Compile(allow("good.example", bad))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Kind != sandbox.Invalid || e.Op != "network.allow[1]" || e.Msg == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	many := make([]string, sandbox.MaxNetworkRules+1)
	for i := range many {
		many[i] = "good.example"
	}
	for _, c := range []struct {
		policy sandbox.NetworkPolicy
		op     string
	}{
		{sandbox.NetworkPolicy{Mode: "host"}, "network.mode"},
		{sandbox.NetworkPolicy{Allow: []string{"a.b"}}, "network.allow[0]"},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Deny: []string{"a.b", "1.2"}}, "network.deny[1]"},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{"B\u00fccher.example:80"},
			Deny: []string{"a.b", "xn--bcher-kva.example.:80"}}, "network.deny[1]"},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{"10.0.0.1/32"},
			Deny: []string{"10.0.0.1"}},
			"network.deny[0]"},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Inspect: []string{"10.0.0.1"}}, "network.inspect[0]"},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkNone, Inspect: []string{"a.example"}}, "network"},
		{withSecret(sandbox.Secret{Name: "1A", Hosts: []string{"a.example"}, Value: "long enough"}),
			"network.secrets[0].name"},
		{withSecret(sandbox.Secret{Name: "A", Value: "long enough"}), "network.secrets[0].hosts"},
		{withSecret(sandbox.Secret{Name: "A", Hosts: []string{"a.example", "10.0.0.1"}, Value: "long enough"}),
			"network.secrets[0].hosts[1]"},
		{withSecret(sandbox.Secret{Name: "A", Hosts: []string{"a.example"}, Value: "short"}),
			"network.secrets[0].value"},
		{withSecret(sandbox.Secret{Name: "A", Hosts: []string{"a.example"},
			Value: strings.Repeat("é", MaxEncoded/12+1)}),
			"network.secrets[0].value"},
		{withSecret(sandbox.Secret{Name: "A", Hosts: []string{"a.example"},
			Value: strings.Repeat("&", MaxEncoded/6+1)}),
			"network.secrets[0].value"},
		{withSecret(sandbox.Secret{Name: "A", Hosts: []string{"a.example"}, Value: "line one\nline two"}),
			"network.secrets[0].value"},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, MaxConnections: -1}, "network.max_connections"},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, MaxConnections: 1 << 20}, "network.max_connections"},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, MaxSent: -1}, "network.max_sent"},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: many}, "network"},
	} {
		var e *sandbox.Error
		if _, err := Compile(c.policy); !errors.As(err, &e) || e.Kind != sandbox.Invalid || e.Op != c.op ||
			c.op == "network.max_connections" && e.Msg != "must be from 1 to 65535" {
			t.Errorf("%+.100v: %v, want %s", c.policy, err, c.op)
		}
	}
}

// TestDecisions asks every question once: a name or an address, with the names that the gate handed the address out
// for.
func TestDecisions(t *testing.T) {
	open := compile(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Allow: []string{"10.1.0.0/16:443", "8.8.4.4"},
		Deny: []string{"bad.example", "9.9.9.9:53", "*.ads.example:80"}})
	listed := compile(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted,
		Allow: []string{"API.example.", "*.B\u00fccher.example:8000-8010", "plain.example", "10.2.3.4",
			"169.254.169.254:80", "169.254.0.0/16:81",
			"0.0.0.0/0:22",
			"::/0", "[2001:470::5]:99", "8.8.8.8:53",
			"udp.example:123", "quic.example:443", "8.8.4.4"},
		Deny: []string{"no.api.example", "*.deep.xn--bcher-kva.example", "8.8.0.0/16:9"}})
	nothing := compile(t, allow())
	for _, c := range []struct {
		rules *Rules
		to    string // "udp " before it: a datagram; "own " before it: an address of the host
		names string
		rule  string // "": refused
	}{
		{open, "1.1.1.1:80", "", "full"}, {open, "10.1.2.3:443", "", "10.1.0.0/16:443"}, {open, "10.1.2.3:80", "", ""},
		{open, "own 8.8.8.8:80", "", ""},
		{open, "own 8.8.4.4:80", "", "8.8.4.4"}, {open, "own 10.1.2.3:443", "", ""}, {open, "9.9.9.9:53", "", ""},
		{open, "9.9.9.9:54", "", "full"},
		{open, "1.1.1.1:80", "bad.example", ""}, {open, "1.1.1.1:80", "bad.example other.example", "full"},
		{open, "1.1.1.1:80", "x.ads.example", ""},
		{open, "1.1.1.1:443", "x.ads.example", "full"}, {open, "udp 1.1.1.1:443", "", ""},
		{open, "udp 1.1.1.1:444", "", "full"},
		{open, "[64:ff9b::101:101]:80", "", "full"}, {open, "[64:ff9b::a01:203]:443", "", ""},
		{open, "[64:ff9b::909:909]:53", "", ""}, {open, "[64:ff9b::909:909]:54", "", "full"},
		{open, "[::ffff:10.9.0.1]:80", "", ""},
		{open, "[::ffff:1.1.1.1]:80", "", "full"},
		{open, "[2606:4700::1]:80", "", "full"},

		{listed, "1.1.1.1:80", "", ""}, {listed, "1.1.1.1:22", "", "0.0.0.0/0:22"}, {listed, "10.9.9.9:22", "", ""},
		{listed, "127.0.0.1:22", "", ""}, {listed, "own 5.5.5.5:22", "", ""},
		{listed, "10.2.3.4:1", "", "10.2.3.4"}, {listed, "own 10.2.3.4:1", "", "10.2.3.4"},
		{listed, "10.2.3.5:1", "", ""},
		{listed, "169.254.169.254:80", "", "169.254.169.254:80"},
		{listed, "169.254.169.254:81", "", ""}, {listed, "169.254.170.2:81", "", ""},
		{listed, "169.254.1.1:81", "", "169.254.0.0/16:81"}, {listed, "[fd00:ec2::254]:80", "", ""},
		{listed, "[2606:4700::1]:7", "", "::/0"},
		{listed, "[64:ff9b::a9fe:a9fe]:80", "", ""},
		{listed, "1.1.1.1:80", "api.example", "api.example"}, {listed, "1.1.1.1:80", "x.api.example", ""},
		{listed, "10.0.0.1:80", "api.example", ""},
		{listed, "own 1.1.1.1:80", "api.example", ""}, {listed, "1.1.1.1:8005", "a.b.xn--bcher-kva.example",
			"*.xn--bcher-kva.example:8000-8010"},
		{listed, "1.1.1.1:8011", "a.xn--bcher-kva.example", ""}, {listed, "1.1.1.1:8005", "xn--bcher-kva.example", ""},
		{listed, "1.1.1.1:8005", "x.deep.xn--bcher-kva.example", ""},
		{listed, "8.8.8.8:53", "", "8.8.8.8:53"}, {listed, "udp 8.8.8.8:53", "", "8.8.8.8:53"},
		{listed, "udp 1.1.1.1:123", "udp.example", "udp.example:123"},
		{listed, "udp 1.1.1.1:123", "api.example", ""}, {listed, "udp 1.1.1.1:443", "quic.example", ""},
		{listed, "udp 8.8.4.4:443", "", ""},
		{listed, "8.8.4.4:9", "", ""},
		{nothing, "1.1.1.1:80", "", ""}, {nothing, "10.0.0.1:80", "", ""},
	} {
		udp, own := strings.Contains(c.to, "udp "), strings.Contains(c.to, "own ")
		to := netip.MustParseAddrPort(strings.TrimPrefix(strings.TrimPrefix(c.to, "udp "), "own "))
		to = netip.AddrPortFrom(Canonical(to.Addr()), to.Port())
		route := map[bool]Route{true: RouteHost}[own]
		v := c.rules.Decide(Destination{To: to, UDP: udp, Route: route, Names: strings.Fields(c.names)})
		if v.Allowed != (c.rule != "") || v.Allowed && v.Rule != c.rule || v.Allowed == (v.Reason != "") {
			t.Errorf("%s %s: %+v, want %q", c.to, c.names, v, c.rule)
		}
	}
	for name, want := range map[string]bool{"api.example": true, "no.api.example": false,
		"a.xn--bcher-kva.example": true,
		"example":                 false,
		"quic.example":            true} {
		if v := listed.DecideLookup(name); v.Allowed != want {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestNeverPublic: mode full reaches none of these, whatever form they come in, and no name brings them in reach.
func TestNeverPublic(t *testing.T) {
	full := compile(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.255.255.255", "100.64.0.1", "100.127.255.255", "100.100.100.200", "127.0.0.1",
		"127.255.255.254",
		"169.254.169.254", "169.254.170.2", "172.16.0.1",
		"172.31.255.255", "192.168.0.1", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.19.255.255",
		"198.51.100.1",
		"203.0.113.1", "224.0.0.251",
		"239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::10.0.0.1", "::ffff:127.0.0.1",
		"::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
		"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1::101:101", "2002:7f00:1::",
		"2002:a9fe:a9fe::1", "2001::1",
		"2001:0:4136:e378:8000:63bf:3fff:fdd2",
		"2001:db8::1", "3fff::1", "100::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fd00:6675:6d65::1",
		"fe80::1", "fec0::1",
		"ff02::1", "ff0e::1", "4000::1",
	} {
		a := Canonical(netip.MustParseAddr(s))
		for _, names := range [][]string{nil, {"evil.example"}} {
			if v := full.Decide(Destination{To: netip.AddrPortFrom(a, 80), Names: names}); v.Allowed {
				t.Errorf("%s is allowed by %s", s, v.Rule)
			}
		}
		if full.MayResolveTo("evil.example", a, RouteAway) {
			t.Errorf("%s is handed out", s)
		}
	}
	for _, s := range []string{"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.32.0.0",
		"192.0.1.1",
		"198.20.0.1", "223.255.255.255", "2606:4700::1", "2a00::1", "2001:470::1"} {
		if v := full.Decide(Destination{To: netip.MustParseAddrPort(netip.AddrPortFrom(netip.MustParseAddr(s),
			80).String())}); !v.Allowed {
			t.Errorf("%s: %s", s, v.Reason)
		}
	}
}

// TestTrusted: a trusted name may have a private or reserved address, or one of the host, but no loopback, link-local
// or metadata address. It opens no other name at that address, and no port but its own.
func TestTrusted(t *testing.T) {
	p := allow("index.corp:443", "other.corp", "index.corp:80")
	p.Trusted = []string{"index.corp:443"}
	r := compile(t, p)
	for _, c := range []struct {
		to, names, states string
		allowed           bool
	}{
		{"10.1.2.3:443", "index.corp", "index.corp", true}, {"192.0.2.7:443", "index.corp", "index.corp", true},
		{"[fd12::7]:443", "index.corp", "index.corp", true}, {"own 8.8.8.8:443", "index.corp", "index.corp", true},
		{"own 192.168.1.2:443", "index.corp", "index.corp", true}, {"8.8.8.8:443", "index.corp", "index.corp", true},
		{"10.1.2.3:80", "index.corp", "index.corp", false}, {"10.1.2.3:443", "other.corp", "other.corp", false},
		{"10.1.2.3:443", "", "index.corp", false}, {"10.1.2.3:443", "index.corp", "other.corp", false},
		{"10.1.2.3:443", "other.corp index.corp", "index.corp", true},
		{"127.0.0.1:443", "index.corp", "index.corp", false}, {"169.254.1.1:443", "index.corp", "index.corp", false},
		{"100.100.100.200:443", "index.corp", "index.corp", false},
		{"[fd00:ec2::254]:443", "index.corp", "index.corp", false},
		{"[fd00:ec2::23]:443", "index.corp", "index.corp", false},
		{"100.80.80.80:443", "index.corp", "index.corp", false},
		{"[fd00:c1::a9fe:a9fe]:443", "index.corp", "index.corp", false},
		{"[fd00:a9fe:a9fe::1]:443", "index.corp", "index.corp", false},
		{"[fd00:100::100:200]:443", "index.corp", "index.corp", false},
		{"[fe80::1]:443", "index.corp", "index.corp", false},
		{"[64:ff9b::a00:1]:443", "index.corp", "index.corp", false},
		{"224.0.0.1:443", "index.corp", "index.corp", false},
	} {
		route := map[bool]Route{true: RouteHost}[strings.HasPrefix(c.to, "own ")]
		d := Destination{To: netip.MustParseAddrPort(strings.TrimPrefix(c.to, "own ")), Route: route,
			Names: strings.Fields(c.names)}
		if v := r.CheckName(d, c.states); v.Allowed != c.allowed {
			t.Errorf("%s %s: %+v", c.to, c.names, v)
		}
		resolves := r.MayResolveTo(c.names, d.To.Addr(), route)
		if c.names == "index.corp" && c.allowed && !resolves || strings.Contains(c.to, "169.254") && resolves {
			t.Errorf("%s to %s: %v", c.names, c.to, resolves)
		}
	}
}

// FuzzRule: what is accepted means the same when it is read back, matches itself, and opens nothing that no rule may.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"a.b", "*.a.b:80", "10.0.0.0/8:1-2", "[2001:db8::/32]:443", "::/0", "0x7f.1",
		"\u2488.example", "a\u3002b",
		"1.2.3.4", "\u00bd.a", "\uff11.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		rules, err := Compile(allow(s))
		if err != nil {
			return
		}
		one := slices.Concat(rules.allow.networks, slices.Concat(slices.Collect(maps.Values(rules.allow.names))...),
			slices.Concat(slices.Collect(maps.Values(rules.allow.below))...))[0]
		again, err := parseRule(one.String())
		if err != nil || again != one {
			t.Fatalf("%q is %+v, and its text %+v, %v", s, one, again, err)
		}
		if _, err := Compile(sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{s},
			Deny: []string{one.String()}}); err == nil {
			t.Fatalf("%q and %q contradict each other", s, &one)
		}
		for _, never := range []string{"127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "ff02::1",
			"198.18.0.1"} {
			if a := netip.MustParseAddr(never); rules.Decide(Destination{To: netip.AddrPortFrom(a,
				max(one.ports.from, 1)),
				Names: []string{one.name}}).Allowed {
				t.Fatalf("%q opens %s", s, never)
			}
		}
		if one.name != "" {
			if a, err := netip.ParseAddr(one.name); err == nil {
				t.Fatalf("%q is the name %s", s, a)
			}
			name := strings.Replace(one.name, "*", "x", 1)
			if len(name) <= MaxName && !rules.DecideLookup(name).Allowed {
				t.Fatalf("%q does not allow %q", s, name)
			}
		}
	})
}

// TestSecretHeaders: a secret may be in the headers that it names, else in the usual ones, which the docs list.
func TestSecretHeaders(t *testing.T) {
	secret := sandbox.Secret{Name: "A", Hosts: []string{"api.test"}, Value: "long enough"}
	for named, want := range map[string]string{"": "Authorization X-Api-Key", "x-mine": "X-Mine", "cookie": "Cookie",
		"x mine": "error", "Accept-Encoding": "error", "host": "error", "Proxy-Authorization": "error"} {
		if secret.Headers = nil; named != "" {
			secret.Headers = []string{named}
		}
		r, err := Compile(sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Secrets: []sandbox.Secret{secret}})
		if err != nil {
			if want != "error" || !strings.Contains(err.Error(), "network.secrets[0].headers[0]") {
				t.Errorf("%q: %v", named, err)
			}
			continue
		}
		for _, header := range []string{"Authorization", "X-Api-Key", "X-Mine", "Cookie", "X-Goog-Meta-K"} {
			if got := r.Secrets[0].MayGoIn(header); got != strings.Contains(want, header) {
				t.Errorf("%q may be in %s: %v", named, header, got)
			}
		}
	}
	docs, err := os.ReadFile("../../../docs/secrets.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range usualHeaders {
		if http.CanonicalHeaderKey(name) != name || !strings.Contains(string(docs), "`"+name+"`") {
			t.Errorf("%s is not canonical, or not in docs/secrets.md", name)
		}
	}
}

// TestQUIC: UDP is refused at ports where names decide, or where the gate reads the requests of some name.
func TestQUIC(t *testing.T) {
	secret := sandbox.Secret{Name: "A", Hosts: []string{"api.test:8443"}, Value: "long enough"}
	for _, c := range []struct {
		policy sandbox.NetworkPolicy
		port   uint16
		passes bool
	}{
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}, 443, true},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Deny: []string{"evil.test"}}, 443, false},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Inspect: []string{"api.test"}}, 443, false},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Inspect: []string{"api.test"}}, 8443, true},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Secrets: []sandbox.Secret{secret}}, 8443, false},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{"93.184.216.34"}}, 443, false},
		{sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{"93.184.216.34"},
			Secrets: []sandbox.Secret{secret}}, 8443, false},
	} {
		to := netip.AddrPortFrom(netip.MustParseAddr("93.184.216.34"), c.port)
		if v := compile(t, c.policy).Decide(Destination{To: to, UDP: true}); v.Allowed != c.passes ||
			!c.passes && v.Reason != QUIC {
			t.Errorf("%+v: UDP to %d: %+v", c.policy, c.port, v)
		}
	}
}
