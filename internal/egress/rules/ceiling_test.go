package rules

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// below returns a policy under a ceiling of these rules, whose highest mode is the default.
func below(t testing.TB, p sandbox.NetworkPolicy, most ...string) sandbox.NetworkPolicy {
	t.Helper()
	p.Ceiling = &sandbox.NetworkCeiling{Allow: most}
	if err := CheckCeiling(p.Ceiling); err != nil {
		t.Fatal(err)
	}
	return p
}

// hostAt is a route to this host for one address.
func hostAt(own string) func(netip.Addr) Route {
	return func(a netip.Addr) Route {
		if a.String() == own {
			return RouteHost
		}
		return RouteAway
	}
}

// TestCeiling: each rule of a policy must lie within one of the operator's, whatever opens it. The error names its
// position and what the operator can do.
func TestCeiling(t *testing.T) {
	const own = "5.5.5.2"
	full := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}
	for _, c := range []struct {
		most   string // the rules of the ceiling
		policy sandbox.NetworkPolicy
		op     string // of the refusal, "" for none
		fix    string
	}{
		{"public", full, "", ""},
		{"public", allow("a.example", "*.b.example:80", "8.8.8.8", "0.0.0.0/0", "::/0"), "", ""},
		{"public", allow("a.example", "169.254.169.254"), "network.allow[1]",
			"have the operator start the server with --network-allow public,169.254.169.254"},
		{"public", allow("10.1.2.3:80"), "network.allow[0]", "--network-allow public,10.1.2.3:80"},
		{"public", allow("100.100.100.200"), "network.allow[0]", ""},
		{"public", allow("fd00:ec2::254"), "network.allow[0]", ""},
		{"public", allow("192.168.0.0/16"), "network.allow[0]", ""}, {"public", allow(own), "network.allow[0]", ""},
		{"public", allow("5.5.5.0/24"), "", ""}, {"public," + own, allow(own), "", ""},
		{"public,10.0.0.0/8", allow("10.1.2.3:80", "10.1.0.0/16"), "", ""},
		{"public,10.0.0.0/8", allow("172.16.0.1"), "network.allow[0]", ""},
		{"public,0.0.0.0/0", allow("10.1.2.3"), "network.allow[0]", ""},
		{"public,100.64.0.0/10", allow("100.100.100.200"), "network.allow[0]", ""},
		{"public,169.254.0.0/16", allow("169.254.1.1", "169.254.169.254"), "network.allow[1]", ""},
		{"public,10.0.0.1:80-90", allow("10.0.0.1:81", "10.0.0.1:80-90"), "", ""},
		{"public,10.0.0.1:80-90", allow("10.0.0.1:91"), "network.allow[0]", ""},
		{"public,10.0.0.1:80-90", allow("10.0.0.1"), "network.allow[0]", ""},
		{"a.example,*.b.example:443", allow("a.example", "A.example.:22", "x.y.b.example:443",
			"*.z.b.example:443"), "", ""},
		{"a.example,*.b.example:443", allow("b.example:443"), "network.allow[0]", ""},
		{"a.example,*.b.example:443", allow("x.b.example"), "network.allow[0]", ""},
		{"a.example,*.b.example:443", allow("*.example:443"), "network.allow[0]", ""},
		{"a.example,*.b.example:443", allow("xb.example:443"), "network.allow[0]", ""},
		{"a.example", allow("8.8.8.8"), "network.allow[0]", "--network-allow a.example,8.8.8.8"},
		{"8.8.0.0/16", allow("8.8.8.8:53", "8.8.4.0/24"), "", ""},
		{"8.8.0.0/16", allow("8.0.0.0/8"), "network.allow[0]", ""},
		{"a.example", full, "network.mode",
			"use restricted, or have the operator start the server with --max-network full"},
		{"a.example", sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Secrets: []sandbox.Secret{{Name: "A",
			Value: "long enough", Hosts: []string{"a.example", "b.example"}}}}, "network.secrets[0].hosts[1]", ""},
		{"a.example:443", sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Secrets: []sandbox.Secret{{Name: "A",
			Value: "long enough", Hosts: []string{"a.example"}}}}, "", ""},
		{"", sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}, "", ""},
	} {
		p := below(t, c.policy, strings.Split(c.most, ",")[:min(len(c.most), strings.Count(c.most, ",")+1)]...)
		err := CheckWithin(p, hostAt(own))
		var e *sandbox.Error
		if c.op == "" && err == nil {
			continue
		}
		if !errors.As(err, &e) || e.Kind != sandbox.Invalid || e.Op != c.op || !strings.Contains(e.Fix, cmpOr(c.fix)) {
			t.Errorf("%v under %s: %v", c.policy.Allow, c.most, err)
		}
	}
}

func cmpOr(fix string) string {
	if fix == "" {
		return "have the operator "
	}
	return fix
}

// TestBadCeilings: what an operator cannot mean is refused at the start.
func TestBadCeilings(t *testing.T) {
	for _, c := range []struct {
		most sandbox.NetworkCeiling
		op   string
	}{
		{sandbox.NetworkCeiling{Mode: "host"}, "max_network"},
		{sandbox.NetworkCeiling{Mode: sandbox.NetworkFull, Allow: []string{"a.example"}}, "max_network"},
		{sandbox.NetworkCeiling{Allow: []string{"public", "127.0.0.1"}}, "network_allow"},
		{sandbox.NetworkCeiling{Allow: []string{"a b"}}, "network_allow"},
	} {
		var e *sandbox.Error
		if err := CheckCeiling(&c.most); !errors.As(err, &e) || e.Op != c.op {
			t.Errorf("%+v: %v", c.most, err)
		}
	}
	most := sandbox.NetworkCeiling{}
	if err := CheckCeiling(&most); err != nil || most.Mode != sandbox.NetworkFull || !slices.Equal(most.Allow,
		[]string{"public"}) {
		t.Errorf("%+v, %v", most, err)
	}
}

// TestAboveCeiling: a policy of a server with a higher ceiling opens nothing above this one.
func TestAboveCeiling(t *testing.T) {
	high := allow("10.1.2.3", "169.254.169.254", "5.5.5.2", "a.example", "b.example:443", "8.8.8.8")
	full := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Allow: high.Allow}
	for _, c := range []struct {
		rules           *Rules
		to, name, state string // the destination, the name that it was resolved for, and the name that it states
		allowed         bool
	}{
		{compile(t, below(t, high, "public")), "10.1.2.3:80", "", "", false},
		{compile(t, below(t, high, "public")), "169.254.169.254:80", "", "", false},
		{compile(t, below(t, full, "public")), "169.254.169.254:80", "", "", false},
		{compile(t, below(t, high, "public")), "own 5.5.5.2:80", "", "", false},
		{compile(t, below(t, high, "public", "5.5.5.2")), "own 5.5.5.2:80", "", "", true},
		{compile(t, below(t, high, "public", "5.5.5.0/24")), "own 5.5.5.2:80", "", "", false},
		{compile(t, below(t, high, "public", "10.0.0.0/8")), "10.1.2.3:80", "", "", true},
		{compile(t, below(t, high, "public")), "8.8.8.8:80", "", "", true},
		{compile(t, below(t, high, "a.example")), "8.8.8.8:80", "", "", false},
		{compile(t, below(t, high, "a.example")), "1.1.1.1:443", "a.example", "a.example", true},
		{compile(t, below(t, high, "a.example")), "1.1.1.1:443", "a.example", "b.example", false},
		{compile(t, below(t, high, "a.example")), "1.1.1.1:443", "b.example", "b.example", false},
		{compile(t, below(t, full, "a.example")), "1.1.1.1:443", "a.example", "a.example", true},
		{compile(t, below(t, full, "a.example")), "1.1.1.1:443", "a.example", "c.example", false},
		{compile(t, below(t, full, "a.example")), "1.1.1.1:443", "", "", false},
	} {
		route := map[bool]Route{true: RouteHost}[strings.HasPrefix(c.to, "own ")]
		d := Destination{To: netip.MustParseAddrPort(strings.TrimPrefix(c.to, "own ")), Route: route,
			Names: strings.Fields(c.name)}
		if v := c.rules.CheckName(d, c.state); v.Allowed != c.allowed || v.Allowed == (v.Reason != "") {
			t.Errorf("%s %s %s under %v: %+v", c.to, c.name, c.state, c.rules.ceiling.Allow, v)
		}
	}
	none := full
	none.Ceiling = &sandbox.NetworkCeiling{Mode: sandbox.NetworkNone, Allow: []string{"public"}}
	r := compile(t, none)
	if r.Decide(Destination{To: netip.MustParseAddrPort("8.8.8.8:80")}).Allowed ||
		r.DecideLookup("a.example").Allowed ||
		r.MayResolveTo("", netip.MustParseAddr("10.1.2.3"), RouteAway) {
		t.Error("a ceiling of mode none opens something")
	}
	if err := CheckWithin(full, hostAt("")); err != nil { // no ceiling
		t.Error(err)
	}
}

// FuzzCeiling: a rule that the ceiling contains opens the same under it as without it, and a rule that it does not
// contain is the only way to be refused.
func FuzzCeiling(f *testing.F) {
	f.Add("10.0.0.0/8", "10.1.2.3:80")
	f.Add("*.b.c:443", "a.b.c:443")
	f.Add("public", "0.0.0.0/0:1-2")
	f.Add("[2000::/3]:80", "2001:db8::1")
	f.Fuzz(func(t *testing.T, most, entry string) {
		p := allow(entry)
		plain, err := Compile(p)
		p.Ceiling = &sandbox.NetworkCeiling{Mode: sandbox.NetworkRestricted, Allow: []string{most}}
		if err != nil || CheckCeiling(p.Ceiling) != nil || CheckWithin(p, hostAt("")) != nil {
			return
		}
		bound := compile(t, p)
		one, err := parseRule(entry)
		if err != nil {
			t.Fatal(err)
		}
		d := Destination{To: netip.AddrPortFrom(netip.MustParseAddr("1.1.1.1"), max(one.ports.to, 1))}
		if one.name == "" {
			d.To = netip.AddrPortFrom(one.prefix.Addr(), d.To.Port())
		} else {
			d.Names = []string{strings.Replace(one.name, "*", "x", 1)}
			if len(d.Names[0]) > MaxName {
				return
			}
		}
		for _, d.UDP = range []bool{false, true} {
			want, got := plain.Decide(d), bound.Decide(d)
			if want != got {
				t.Fatalf("%q under %q: %+v, without it %+v", entry, most, got, want)
			}
		}
	})
}

// TestRaise: the fix names the option that would raise the ceiling, and only rules that it has are suggested.
func TestRaise(t *testing.T) {
	p := below(t, allow("a.example", "b.example"), "a.example", "host:80")
	p.Ceiling.OfKey = true
	err := CheckWithin(p, hostAt(""))
	const want = "have the operator give the API key network-allow=a.example,host:80,b.example"
	if fix := sandbox.FixOf(err); fix != want {
		t.Errorf("%v: %s", err, fix)
	}
	p.Mode = sandbox.NetworkFull
	if err := CheckWithin(p, hostAt("")); !strings.Contains(err.Error(), "above the API key's maximum of restricted") {
		t.Error(err)
	}
	r := compile(t, below(t, allow(), "public", "10.1.0.0/16:443", "host:80"))
	for entry, want := range map[string]bool{"c.example": true, "c.example:443": true, "8.8.8.8:53": true,
		"10.1.2.3:443": true, "10.1.2.3:80": false, "169.254.169.254:80": false, "host:80": true, "host:81": false,
		"host:PORT": true} {
		if got := r.MayList(entry, hostAt("")); got != want {
			t.Errorf("%s: %v", entry, got)
		}
	}
	r = compile(t, below(t, allow(), "a.example:443"))
	for entry, want := range map[string]bool{"a.example": true, "b.example": false, "host:PORT": false} {
		if got := r.MayList(entry, hostAt("")); got != want {
			t.Errorf("%s: %v", entry, got)
		}
	}
}
