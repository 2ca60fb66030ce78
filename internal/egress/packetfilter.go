package egress

import (
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// packet is the decision about an Ethernet frame of the sandbox.
type packet struct {
	pass     bool // to the stack, as protocol
	fragment bool // a part of a packet
	protocol tcpip.NetworkProtocolNumber
	size     int // bytes of the packet. More may follow it in the frame, and the stack would keep them with the packet
	to       netip.Addr
	reason   string // of a refusal. Other packets that do not pass are noise of the link
}

const (
	loopback  = "it is a loopback address"
	notPassed = "only TCP and UDP pass"
	forged    = "it does not come from the address of the sandbox"
	ipOptions = "IP options and extension headers do not pass"
)

// filterPacket decides about a frame before the stack sees it. TCP and UDP from the sandbox's own address pass, and
// packets for the gate itself: ARP, neighbour solicitations, pings.
func filterPacket(b []byte) packet {
	if len(b) < header.EthernetMinimumSize {
		return packet{}
	}
	body := b[header.EthernetMinimumSize:]
	switch kind := header.Ethernet(b).Type(); kind {
	case header.ARPProtocolNumber:
		return filterARP(body)
	case header.IPv4ProtocolNumber:
		return filter4(body)
	case header.IPv6ProtocolNumber:
		return filter6(body)
	}
	return packet{}
}

func filterARP(b []byte) packet {
	a := header.ARP(b)
	target := sandbox.LinkGateway4.As4()
	if !a.IsValid() || a.Op() != header.ARPRequest || [4]byte(a.ProtocolAddressTarget()) != target {
		return packet{}
	}
	return packet{pass: true, protocol: header.ARPProtocolNumber, size: header.ARPSize}
}

func filter4(b []byte) packet {
	if len(b) < header.IPv4MinimumSize {
		return packet{}
	}
	h := header.IPv4(b)
	p := packet{protocol: header.IPv4ProtocolNumber, size: int(h.TotalLength()),
		to: netip.AddrFrom4([4]byte(b[16:20]))}
	switch own := sandbox.LinkAddress4.Addr().As4(); {
	case !h.IsValid(len(b)):
	case [4]byte(b[12:16]) != own:
		p.reason = forged
	case p.to.IsLoopback():
		p.reason = loopback // the stack would log it as an error of the server
	case h.HeaderLength() != header.IPv4MinimumSize:
		p.reason = ipOptions
	case h.TransportProtocol() == header.TCPProtocolNumber, h.TransportProtocol() == header.UDPProtocolNumber:
		p.pass, p.fragment = true, h.More() || h.FragmentOffset() != 0
	case h.TransportProtocol() == header.ICMPv4ProtocolNumber:
		body := h.Payload()
		if len(body) >= header.ICMPv4MinimumSize && header.ICMPv4(body).Type() == header.ICMPv4Echo &&
			!h.More() && h.FragmentOffset() == 0 {
			p.passToGate(p.to == sandbox.LinkGateway4)
		}
	case !p.to.IsMulticast(): // to which the kernel announces its groups (IGMP)
		p.reason = notPassed
	}
	return p
}

func (p *packet) passToGate(pass bool) {
	if p.pass = pass; !pass {
		p.reason = notPassed
	}
}

func filter6(b []byte) packet {
	if len(b) < header.IPv6MinimumSize {
		return packet{}
	}
	h := header.IPv6(b)
	from := netip.AddrFrom16([16]byte(b[8:24]))
	p := packet{protocol: header.IPv6ProtocolNumber, size: header.IPv6MinimumSize + int(h.PayloadLength()),
		to: netip.AddrFrom16([16]byte(b[24:40]))}
	own := from == sandbox.LinkAddress6.Addr()
	next, body := h.NextHeader(), b[header.IPv6MinimumSize:]
	if next == uint8(header.ICMPv6ProtocolNumber) && h.IsValid(len(b)) && len(body) >= header.ICMPv6MinimumSize {
		p.filterICMP6(header.ICMPv6(body), own || from.IsLinkLocalUnicast())
		return p
	}
	if next == header6Fragment && len(body) >= header.IPv6FragmentHeaderSize {
		next, p.fragment = body[0], true
	}
	switch {
	case !h.IsValid(len(b)) || from.IsUnspecified() || from.IsLinkLocalUnicast() ||
		p.to.IsMulticast() && next != header6UDP: // the kernel's own packets on a link: groups, routers, duplicates
	case !own:
		p.reason = forged
	case p.to.IsLoopback():
		p.reason = loopback
	case next == header6TCP || next == header6UDP:
		p.pass = true
	case next == header6HopByHop || next == header6Routing || next == header6Options || next == header6Fragment:
		p.reason = ipOptions
	default:
		p.reason = notPassed
	}
	return p
}

const (
	header6HopByHop = uint8(header.IPv6HopByHopOptionsExtHdrIdentifier)
	header6Routing  = uint8(header.IPv6RoutingExtHdrIdentifier)
	header6Options  = uint8(header.IPv6DestinationOptionsExtHdrIdentifier)
	header6Fragment = uint8(header.IPv6FragmentHeader)
	header6TCP      = uint8(header.TCPProtocolNumber)
	header6UDP      = uint8(header.UDPProtocolNumber)
)

func (p *packet) filterICMP6(h header.ICMPv6, own bool) {
	switch h.Type() {
	case header.ICMPv6NeighborSolicit:
		const target = 8 // offset (RFC 4861, section 4.3)
		p.pass = own && len(h) >= target+16 &&
			netip.AddrFrom16([16]byte(h[target:target+16])) == sandbox.LinkGateway6
	case header.ICMPv6EchoRequest:
		p.passToGate(own && p.to == sandbox.LinkGateway6)
	}
}
