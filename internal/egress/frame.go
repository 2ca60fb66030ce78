package egress

import (
	"encoding/binary"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// frame is what an Ethernet frame of the sandbox comes to.
type frame struct {
	pass     bool // to the stack, as protocol
	protocol tcpip.NetworkProtocolNumber
	refused  bool // a packet that was to go somewhere; otherwise what does not pass is noise of the link
	to       netip.Addr
	reason   string
}

const (
	loopback  = "it is a loopback address"
	notPassed = "only TCP and UDP pass"
	forged    = "it does not come from the address of the sandbox"
	ipOptions = "IP options and extension headers do not pass"
)

// examine decides about a frame before the stack sees it. What passes is TCP or UDP from the sandbox's own address, or talk with the gate
// itself: ARP, neighbour solicitations, pings.
func examine(b []byte) frame {
	if len(b) < header.EthernetMinimumSize {
		return frame{}
	}
	packet := b[header.EthernetMinimumSize:]
	switch kind := header.Ethernet(b).Type(); kind {
	case header.ARPProtocolNumber:
		return examineARP(packet)
	case header.IPv4ProtocolNumber:
		return examine4(packet)
	case header.IPv6ProtocolNumber:
		return examine6(packet)
	}
	return frame{}
}

func examineARP(b []byte) frame {
	a := header.ARP(b)
	target := sandbox.LinkGateway4.As4()
	if !a.IsValid() || a.Op() != header.ARPRequest || [4]byte(a.ProtocolAddressTarget()) != target {
		return frame{}
	}
	return frame{pass: true, protocol: header.ARPProtocolNumber}
}

func examine4(b []byte) frame {
	if len(b) < header.IPv4MinimumSize {
		return frame{}
	}
	h := header.IPv4(b)
	f := frame{protocol: header.IPv4ProtocolNumber, to: netip.AddrFrom4([4]byte(b[16:20])), refused: true}
	switch own := sandbox.LinkAddress4.Addr().As4(); {
	case !h.IsValid(len(b)):
		return frame{}
	case [4]byte(b[12:16]) != own:
		f.reason = forged
	case f.to.IsLoopback():
		f.reason = loopback // the stack would complain of it in the server's log
	case h.HeaderLength() != header.IPv4MinimumSize:
		f.reason = ipOptions
	case h.TransportProtocol() == header.TCPProtocolNumber, h.TransportProtocol() == header.UDPProtocolNumber:
		f.pass, f.refused = true, false
	case h.TransportProtocol() == header.ICMPv4ProtocolNumber:
		p := h.Payload()
		echo := len(p) >= header.ICMPv4MinimumSize && header.ICMPv4(p).Type() == header.ICMPv4Echo && !h.More() && h.FragmentOffset() == 0
		f.pass = echo && f.to == sandbox.LinkGateway4
		f.refused, f.reason = echo && !f.pass, notPassed
	case f.to.IsMulticast():
		f.refused = false // IGMP: the kernel announces its groups
	default:
		f.reason = notPassed
	}
	return f
}

func examine6(b []byte) frame {
	if len(b) < header.IPv6MinimumSize {
		return frame{}
	}
	h := header.IPv6(b)
	from := netip.AddrFrom16([16]byte(b[8:24]))
	f := frame{protocol: header.IPv6ProtocolNumber, to: netip.AddrFrom16([16]byte(b[24:40]))}
	own := from == sandbox.LinkAddress6.Addr()
	next, payload := h.NextHeader(), b[header.IPv6MinimumSize:]
	if next == uint8(header.ICMPv6ProtocolNumber) && h.IsValid(len(b)) && len(payload) >= header.ICMPv6MinimumSize {
		return examineICMP6(f, header.ICMPv6(payload), own || from.IsLinkLocalUnicast())
	}
	if next == uint8(header.IPv6FragmentHeader) && len(payload) >= header.IPv6FragmentHeaderSize {
		next = payload[0]
	}
	switch {
	case !h.IsValid(len(b)) || from.IsUnspecified() || from.IsLinkLocalUnicast() || f.to.IsMulticast() && next != header6UDP:
		return frame{} // the kernel's own talk on a link: groups, routers, duplicates
	case !own:
		f.refused, f.reason = true, forged
	case f.to.IsLoopback():
		f.refused, f.reason = true, loopback
	case next == header6TCP || next == header6UDP:
		f.pass = true
	case next == header6HopByHop || next == header6Routing || next == header6Options || next == uint8(header.IPv6FragmentHeader):
		f.refused, f.reason = true, ipOptions
	default:
		f.refused, f.reason = true, notPassed
	}
	return f
}

const (
	header6HopByHop = uint8(header.IPv6HopByHopOptionsExtHdrIdentifier)
	header6Routing  = uint8(header.IPv6RoutingExtHdrIdentifier)
	header6Options  = uint8(header.IPv6DestinationOptionsExtHdrIdentifier)
	header6TCP      = uint8(header.TCPProtocolNumber)
	header6UDP      = uint8(header.UDPProtocolNumber)
)

func examineICMP6(f frame, h header.ICMPv6, own bool) frame {
	gateway := sandbox.LinkGateway6
	switch h.Type() {
	case header.ICMPv6NeighborSolicit:
		const target = 8 // offset (RFC 4861, section 4.3)
		f.pass = own && len(h) >= target+16 && netip.AddrFrom16([16]byte(h[target:target+16])) == gateway
	case header.ICMPv6EchoRequest:
		f.pass = own && f.to == gateway
		f.refused, f.reason = !f.pass, notPassed
	}
	return f
}

// offload is the virtio-net header (linux/virtio_net.h) that precedes a frame: how much of the checksum and of the segmentation of TCP the
// one who wrote it left to the reader.
type offload struct {
	flags, kind      uint8
	headers, segment uint16
	start, offset    uint16
}

const (
	offloadSize     = 10
	offloadChecksum = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
	offloadTCP4     = 1 // VIRTIO_NET_HDR_GSO_TCPV4
	offloadTCP6     = 4
)

// encode writes the header in the machine's byte order, as a TAP device has it without TUNSETVNETLE.
func (o *offload) encode(b []byte) {
	b[0], b[1] = o.flags, o.kind
	binary.NativeEndian.PutUint16(b[2:], o.headers)
	binary.NativeEndian.PutUint16(b[4:], o.segment)
	binary.NativeEndian.PutUint16(b[6:], o.start)
	binary.NativeEndian.PutUint16(b[8:], o.offset)
}
