package rules

import (
	"net/netip"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// special are the ranges outside of the public internet, most of them from IANA's registries of special-purpose
// addresses. The first range that contains an address names its class.
var special = []struct {
	prefix netip.Prefix
	class  string
	never  bool // no rule opens it
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "no address of a host", true},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address", true},
	{netip.MustParsePrefix("198.18.0.0/30"), "the sandbox's own network", true},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address", true},
	{netip.MustParsePrefix("255.255.255.255/32"), "the broadcast address", true},
	{netip.MustParsePrefix("100.100.100.200/32"), "a metadata address", false}, // Alibaba's
	{netip.MustParsePrefix("100.80.80.80/32"), "a metadata address", false},    // UCloud's
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata address", false},   // Azure's
	{netip.MustParsePrefix("192.0.0.192/32"), "a metadata address", false},     // Oracle's
	{netip.MustParsePrefix("10.0.0.0/8"), classPrivate, false},
	// RFC 6598
	{netip.MustParsePrefix("100.64.0.0/10"), classPrivate, false},
	{netip.MustParsePrefix("169.254.169.254/32"), "a metadata address", false}, // of most clouds
	{netip.MustParsePrefix("169.254.170.2/32"), "a metadata address", false},   // Amazon's, of containers
	{netip.MustParsePrefix("169.254.170.23/32"), "a metadata address", false},  // Amazon's Pod Identity
	{netip.MustParsePrefix("169.254.0.23/32"), "a metadata address", false},    // Tencent's
	{netip.MustParsePrefix("169.254.42.42/32"), "a metadata address", false},   // Scaleway's
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local or metadata address", false},
	{netip.MustParsePrefix("172.16.0.0/12"), classPrivate, false},
	{netip.MustParsePrefix("192.168.0.0/16"), classPrivate, false},
	{netip.MustParsePrefix("192.0.0.0/24"), classReserved, false},
	{netip.MustParsePrefix("192.0.2.0/24"), classReserved, false},
	{netip.MustParsePrefix("192.88.99.0/24"), classReserved, false},
	{netip.MustParsePrefix("198.18.0.0/15"), classReserved, false},
	{netip.MustParsePrefix("198.51.100.0/24"), classReserved, false},
	{netip.MustParsePrefix("203.0.113.0/24"), classReserved, false},
	{netip.MustParsePrefix("240.0.0.0/4"), classReserved, false},

	{netip.MustParsePrefix("::1/128"), "a loopback address", true},
	// the unspecified address and IPv4-compatible ones
	{netip.MustParsePrefix("::/96"), "an IPv4 address in another form", true},
	{netip.MustParsePrefix("::ffff:0:0/96"), "an IPv4 address in another form", true},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an IPv4 address in another form", true}, // RFC 8215
	{netip.MustParsePrefix("2001::/32"), "an IPv4 address in another form", true},      // Teredo
	{netip.MustParsePrefix("2002::/16"), "an IPv4 address in another form", true},      // 6to4
	{sandbox.LinkAddress6.Masked(), "the sandbox's own network", true},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address", true},
	{netip.MustParsePrefix("fd00:ec2::/32"), "a metadata address", false},          // Amazon's: 254, Pod Identity at 23
	{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), "a metadata address", false}, // Oracle's
	{netip.MustParsePrefix("fd00:a9fe:a9fe::/48"), "a metadata address", false},    // Akamai's
	{netip.MustParsePrefix("fd00:100::100:200/128"), "a metadata address", false},  // Alibaba's
	{netip.MustParsePrefix("fd20:ce::254/128"), "a metadata address", false},       // Google's
	{netip.MustParsePrefix("fd00:42::42/128"), "a metadata address", false},        // Scaleway's
	{netip.MustParsePrefix("fc00::/7"), classPrivate, false},
	{netip.MustParsePrefix("fe80::/10"), "a link-local or metadata address", false},
	{netip.MustParsePrefix("2001::/23"), classReserved, false},
	{netip.MustParsePrefix("2001:db8::/32"), classReserved, false},
	{netip.MustParsePrefix("3fff::/20"), classReserved, false},
}

// trustable reports whether a trusted name may have an address of this class and route.
func trustable(class string, route Route) bool {
	return !route.never() && (class == "" || class == classPrivate || class == classReserved)
}

// Classes of addresses in which companies have their own services.
const (
	classPrivate  = "a private address"
	classReserved = "a reserved address"
)

var (
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: the IPv4 address is in the last 32 bits
	global6 = netip.MustParsePrefix("2000::/3")     // all of the public internet's IPv6 is here
)

// Canonical returns the form in which addresses are compared.
func Canonical(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// Classify returns the class of an address, "" for a public one, and whether it is one that no rule can open.
func Classify(a netip.Addr) (class string, never bool) {
	return classify(netip.PrefixFrom(a, a.BitLen()))
}

// classify returns the class of a prefix that lies in one range, and "" for one that contains public addresses.
func classify(p netip.Prefix) (class string, never bool) {
	for i := range special {
		if s := &special[i]; s.prefix.Bits() <= p.Bits() && s.prefix.Contains(p.Addr()) {
			return s.class, s.never
		}
	}
	switch a := p.Addr(); {
	case !p.IsValid():
		return "no address", true
	case !p.IsSingleIP() || a.Is4():
		return "", false
	case nat64.Contains(a):
		if inner, _ := Classify(BehindNAT64(a)); inner != "" {
			return inner + " behind NAT64", true
		}
		return "", false
	case !global6.Contains(a):
		return classReserved, false
	}
	return "", false
}

// BehindNAT64 returns the IPv4 address in an address of NAT64, else the address itself.
func BehindNAT64(a netip.Addr) netip.Addr {
	if !nat64.Contains(a) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}
