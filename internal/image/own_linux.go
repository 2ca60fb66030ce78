package image

import (
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/route"
)

// isOwn reports whether this machine would deliver a connection to itself, as far as the kernel reports it.
func isOwn(to netip.AddrPort) bool {
	kind, err := route.Type(to, syscall.IPPROTO_TCP)
	return err != nil || slices.Contains([]byte{unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST,
		unix.RTN_MULTICAST}, kind)
}
