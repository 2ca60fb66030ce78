package sandbox

import (
	"context"
	"io"
	"net"
	"net/netip"
)

// Linker is a Box whose network has an outer end that a gate can hold. What the sandbox sends arrives there and nowhere
// else.
type Linker interface {
	// Link returns the outer end of the sandbox's network, which the caller owns: an *os.File of a TAP device,
	// non-blocking. A Read or Write moves one Ethernet frame behind a virtio-net header of 10 bytes; checksums and TCP
	// segments may be left to the reader (TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6). While nobody holds it, nothing passes.
	// After a restart of the server it is called again, on the reattached box. Errors: Busy, an earlier end is still
	// open; Unsupported, the sandbox was created without a network, or none can be had here; Unavailable, the sandbox
	// has ended.
	Link(ctx context.Context) (io.ReadWriteCloser, error)
}

// Linked reports whether sandboxes of this policy have an interface besides loopback.
func (p NetworkPolicy) Linked() bool { return p.Mode != "" && p.Mode != NetworkNone }

// The network as every sandbox sees it: the same in each, since no frame leaves a sandbox's network namespace. The
// addresses are reserved for tests of network devices (RFC 2544) and local use (RFC 4193).
const (
	LinkName = "eth0"
	LinkMTU  = 1500 // bytes; larger ones gain nothing, as TCP segments pass whole
)

// The addresses of the sandbox and of its gateway, which is also its resolver (UDP and TCP port 53).
var (
	LinkAddress4        = netip.MustParsePrefix("198.18.0.2/30")
	LinkGateway4        = netip.MustParseAddr("198.18.0.1")
	LinkAddress6        = netip.MustParsePrefix("fd00:6675:6d65::2/64")
	LinkGateway6        = netip.MustParseAddr("fd00:6675:6d65::1")
	LinkHardware        = net.HardwareAddr{0x02, 'f', 'u', 'm', 'e', 2}
	LinkGatewayHardware = net.HardwareAddr{0x02, 'f', 'u', 'm', 'e', 1}
)
