package egress

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// special are the ranges that are not the public internet, most of them from IANA's registries of special-purpose addresses. The first
// range that holds an address names it.
var special = []struct {
	prefix netip.Prefix
	what   string
	never  bool // no rule opens it
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "no address of a host", true},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address", true},
	{netip.MustParsePrefix("198.18.0.0/30"), "the sandbox's own network", true},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address", true},
	{netip.MustParsePrefix("255.255.255.255/32"), "the broadcast address", true},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address", false},
	{netip.MustParsePrefix("100.64.0.0/10"), "a private address", false}, // RFC 6598; 100.100.100.200 serves Alibaba's metadata
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local or metadata address", false},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address", false},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address", false},
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata address", false}, // Azure's
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address", false},     // 192.0.0.192 serves Oracle's metadata
	{netip.MustParsePrefix("192.0.2.0/24"), "a reserved address", false},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address", false},
	{netip.MustParsePrefix("198.18.0.0/15"), "a reserved address", false},
	{netip.MustParsePrefix("198.51.100.0/24"), "a reserved address", false},
	{netip.MustParsePrefix("203.0.113.0/24"), "a reserved address", false},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address", false},

	{netip.MustParsePrefix("::1/128"), "a loopback address", true},
	{netip.MustParsePrefix("::/96"), "an IPv4 address in another form", true}, // the unspecified address and IPv4-compatible ones
	{netip.MustParsePrefix("::ffff:0:0/96"), "an IPv4 address in another form", true},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an IPv4 address in another form", true}, // RFC 8215
	{netip.MustParsePrefix("2001::/32"), "an IPv4 address in another form", true},      // Teredo
	{netip.MustParsePrefix("2002::/16"), "an IPv4 address in another form", true},      // 6to4
	{netip.MustParsePrefix("fd00:676c:6f76::/64"), "the sandbox's own network", true},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address", true},
	{netip.MustParsePrefix("fc00::/7"), "a private address", false}, // fd00:ec2::254 and fd20:ce::254 serve metadata
	{netip.MustParsePrefix("fe80::/10"), "a link-local or metadata address", false},
	{netip.MustParsePrefix("2001::/23"), "a reserved address", false},
	{netip.MustParsePrefix("2001:db8::/32"), "a reserved address", false},
	{netip.MustParsePrefix("3fff::/20"), "a reserved address", false},
}

var (
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: the IPv4 address is in the last 32 bits
	global6 = netip.MustParsePrefix("2000::/3")     // all of the public internet's IPv6 is here
)

// canonical is the one form in which addresses are compared.
func canonical(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// classify says what an address is, "" for a public one, and whether no rule can open it.
func classify(a netip.Addr) (what string, never bool) {
	for i := range special {
		if special[i].prefix.Contains(a) {
			return special[i].what, special[i].never
		}
	}
	switch {
	case !a.IsValid():
		return "no address", true
	case a.Is4():
		return "", false
	case nat64.Contains(a):
		if inner, _ := classify(behindNAT64(a)); inner != "" {
			return inner + " behind NAT64", true
		}
		return "", false
	case !global6.Contains(a):
		return "a reserved address", false
	}
	return "", false
}

// isSpecial reports whether a whole prefix lies in one range that is not public, so that naming it means naming such addresses.
func isSpecial(p netip.Prefix) bool {
	for i := range special {
		if special[i].prefix.Bits() <= p.Bits() && special[i].prefix.Contains(p.Addr()) {
			return true
		}
	}
	what, _ := classify(p.Addr())
	return p.IsSingleIP() && what != ""
}

// hostAddresses are the addresses of this host, read again when they are older than hostAddressesAge.
type hostAddresses struct {
	list func() ([]net.Addr, error)

	mu   sync.Mutex
	read time.Time
	set  map[netip.Addr]bool
}

const hostAddressesAge = 5 * time.Second

// has reports whether the host has this address, also behind NAT64. While the list cannot be read, it has every one.
func (h *hostAddresses) has(a netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set == nil || time.Since(h.read) > hostAddressesAge {
		list, err := h.list()
		if err != nil {
			return true
		}
		h.set, h.read = map[netip.Addr]bool{}, time.Now()
		for _, entry := range list {
			if network, ok := entry.(*net.IPNet); ok {
				if own, ok := netip.AddrFromSlice(network.IP); ok {
					h.set[canonical(own)] = true
				}
			}
		}
	}
	return h.set[a] || nat64.Contains(a) && h.set[behindNAT64(a)]
}

// behindNAT64 is the IPv4 address in one of NAT64's.
func behindNAT64(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// isGateway reports whether an address is the gate's own.
func isGateway(a netip.Addr) bool { return a == sandbox.LinkGateway4 || a == sandbox.LinkGateway6 }
