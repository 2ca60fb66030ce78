//go:build linux

package egress

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPackets: only TCP and UDP pass, from the sandbox's own address, and pings are answered by the gate alone.
func TestPackets(t *testing.T) {
	p := newPlace(t, allow("site.example", "8.8.8.8:99", "9.9.9.9"))
	var mu sync.Mutex
	echo, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	heard := 0
	go func() {
		b := make([]byte, 65535)
		for {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			mu.Lock()
			heard++
			mu.Unlock()
			_, _ = echo.WriteTo(b[:n], from)
		}
	}()
	for _, to := range []string{"8.8.8.8:99", "8.8.8.8:100", "9.9.9.9:443", site + ":443", site + ":80"} {
		p.world.at("udp", to, echo.LocalAddr().String())
	}
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	for to, passes := range map[string]bool{"8.8.8.8:99": true, "8.8.8.8:100": false, "9.9.9.9:443": false,
		site + ":443":      false,
		site + ":80":       false,
		"224.0.0.251:5353": false, "198.18.0.1:54": false} {
		c := p.mustDial("udp", to)
		big := make([]byte, 20000) // in fragments
		_, err := c.Write(big)
		if to == "224.0.0.251:5353" {
			continue // no error tells of it
		}
		n, readErr := c.Read(big)
		if passes != (n == 20000) || !passes && err == nil && !errors.Is(readErr, syscall.ECONNREFUSED) {
			t.Errorf("%s: %d bytes, %v, %v", to, n, err, readErr)
		}
	}
	p.logged("refuses QUIC", func(a Attempt) bool {
		return a.Protocol == sandbox.ProtocolUDP &&
			a.Reason == rules.QUIC
	})
	for _, c := range []struct {
		name, to, reply string
		protocol        byte
		body            []byte
	}{
		{"a ping to the gate", "198.18.0.1", "\x00", 1, []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}},
		{"a ping to elsewhere", "9.9.9.9", "", 1, []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}},
		{"SCTP", "9.9.9.9", "", 132, make([]byte, 16)},
		{"GRE", "9.9.9.9", "", 47, make([]byte, 16)},
	} {
		seq := p.gate.Position()
		var fd int
		p.do(func() { fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, int(c.protocol)) })
		if err != nil {
			t.Fatal(err)
		}
		to := netip.MustParseAddr(c.to)
		if err := syscall.Sendto(fd, c.body, 0, &syscall.SockaddrInet4{Addr: to.As4()}); err != nil {
			t.Fatal(err)
		}
		if c.reply == "" {
			p.loggedAfter(seq, "drops "+c.name, func(a Attempt) bool {
				return a.Protocol == sandbox.ProtocolIP && !a.Allowed &&
					a.Address == to
			})
		} else {
			_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 20})
			b := make([]byte, 100)
			if n, _, err := syscall.Recvfrom(fd, b, 0); err != nil || n < 21 || string(b[20:21]) != c.reply {
				t.Errorf("%s: %x, %v", c.name, b[:max(n, 0)], err)
			}
		}
		syscall.Close(fd)
	}
	mu.Lock()
	defer mu.Unlock()
	if heard != 1 {
		t.Errorf("%d datagrams passed", heard)
	}
}

// sizes has the size of each packet that the device passes to the stack.
type sizes []int

func (s *sizes) DeliverNetworkPacket(_ tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	*s = append(*s, pkt.Data().Size())
}

func (*sizes) DeliverLinkPacket(tcpip.NetworkProtocolNumber, *stack.PacketBuffer) {}

// TestPaddedFrames: the stack gets no bytes that follow a packet in its frame. It would keep them with packets that
// wait, and count only those of the packets.
func TestPaddedFrames(t *testing.T) {
	own4, own6 := sandbox.LinkAddress4.Addr().AsSlice(), sandbox.LinkAddress6.Addr().AsSlice()
	four := header.IPv4(make([]byte, header.IPv4MinimumSize+8))
	four.Encode(&header.IPv4Fields{TotalLength: uint16(len(four)), TTL: 64, Protocol: 17,
		SrcAddr: tcpip.AddrFromSlice(own4), DstAddr: tcpip.AddrFromSlice([]byte{9, 9, 9, 9})})
	six := header.IPv6(make([]byte, header.IPv6MinimumSize+8))
	six.Encode(&header.IPv6Fields{PayloadLength: 8, TransportProtocol: 17, HopLimit: 64,
		SrcAddr: tcpip.AddrFromSlice(own6), DstAddr: tcpip.AddrFromSlice(net.ParseIP("2606:4700::1"))})
	arp := header.ARP(make([]byte, header.ARPSize))
	arp.SetIPv4OverEthernet()
	arp.SetOp(header.ARPRequest)
	copy(arp.ProtocolAddressTarget(), sandbox.LinkGateway4.AsSlice())
	var got, want sizes
	d := &device{up: &got}
	for kind, packet := range map[tcpip.NetworkProtocolNumber][]byte{header.IPv4ProtocolNumber: four,
		header.IPv6ProtocolNumber: six, header.ARPProtocolNumber: arp} {
		frame := make([]byte, header.EthernetMinimumSize, maxSegment)
		header.Ethernet(frame).Encode(&header.EthernetFields{Type: kind})
		want = append(want, len(packet))
		d.deliver(append(frame, packet...)[:maxSegment])
	}
	if !slices.Equal(got, want) {
		t.Errorf("the stack got packets of %v bytes, want %v", got, want)
	}
}
