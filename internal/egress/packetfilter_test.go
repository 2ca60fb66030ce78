package egress

import (
	"net/netip"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// FuzzPacket: what passes is TCP or UDP from the sandbox's address, or for the gate itself.
func FuzzPacket(f *testing.F) {
	four := make([]byte, 14+20+8)
	four[12] = 8
	header.IPv4(four[14:]).Encode(&header.IPv4Fields{TotalLength: 28, TTL: 64, Protocol: 17,
		SrcAddr: tcpip.AddrFromSlice(sandbox.LinkAddress4.Addr().AsSlice()),
		DstAddr: tcpip.AddrFromSlice(netip.MustParseAddr("9.9.9.9").AsSlice())})
	six := make([]byte, 14+40+24)
	six[12], six[13] = 0x86, 0xdd
	header.IPv6(six[14:]).Encode(&header.IPv6Fields{PayloadLength: 24, TransportProtocol: 58, HopLimit: 255,
		SrcAddr: tcpip.AddrFromSlice(sandbox.LinkAddress6.Addr().AsSlice()),
		DstAddr: tcpip.AddrFromSlice(sandbox.LinkGateway6.AsSlice())})
	six[14+40] = 135
	f.Add(four)
	f.Add(six)
	f.Add(append(make([]byte, 12), 8, 6, 0, 1, 8, 0, 6, 4, 0, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := filterPacket(b)
		if got.reason != "" && (got.pass || !got.to.IsValid()) {
			t.Fatalf("%+v", got)
		}
		if got.pass && header.EthernetMinimumSize+got.size > len(b) {
			t.Fatalf("a packet of %d bytes in a frame of %d", got.size, len(b))
		}
		if !got.pass || got.protocol == header.ARPProtocolNumber {
			return
		}
		packet := b[14:]
		from, to, next := packet[12:16], got.to, packet[9]
		own := sandbox.LinkAddress4.Addr()
		if got.protocol == header.IPv6ProtocolNumber {
			from, next, own = packet[8:24], packet[6], sandbox.LinkAddress6.Addr()
		}
		if a, _ := netip.AddrFromSlice(from); a != own && !(next == 58 && a.IsLinkLocalUnicast()) {
			t.Fatalf("from %s", a)
		}
		switch next {
		case 6, 17, 44:
		case 1, 58:
			if !rules.IsGateway(to) && packet[40] != 135 {
				t.Fatalf("ICMP to %s", to)
			}
		default:
			t.Fatalf("protocol %d", next)
		}
	})
}
