//go:build !linux

package image

import (
	"net"
	"net/netip"
	"slices"
)

// isOwn reports whether an address is one of this machine's interfaces.
func isOwn(to netip.AddrPort) bool {
	own, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(own, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr().Unmap() == to.Addr()
	})
}
