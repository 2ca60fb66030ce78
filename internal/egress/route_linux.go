package egress

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/internal/host/route"
)

// routeTo returns the route of the host to an address, for packets of a protocol to a port unless that is 0.
func routeTo(to netip.AddrPort, protocol byte) rules.Route {
	kind, err := route.Type(to, protocol)
	if err != nil {
		return rules.RouteUnknown
	}
	switch kind {
	case unix.RTN_LOCAL:
		return rules.RouteHost
	case unix.RTN_BROADCAST:
		return rules.RouteBroadcast
	case unix.RTN_ANYCAST:
		return rules.RouteAnycast
	case unix.RTN_MULTICAST:
		return rules.RouteMulticast
	}
	return rules.RouteAway
}

// forbidBroadcast is a net.Dialer.Control. It clears the socket option that Go sets for datagrams, so that the kernel
// refuses broadcast addresses also if the route changes after the check (socket(7), SO_BROADCAST).
func forbidBroadcast(network, _ string, c syscall.RawConn) (err error) {
	if !strings.HasPrefix(network, "udp") {
		return nil
	}
	failed := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 0)
	})
	return errors.Join(failed, os.NewSyscallError("setsockopt", err))
}
