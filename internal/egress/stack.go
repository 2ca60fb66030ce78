package egress

import (
	"io"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	nic = tcpip.NICID(1) // the only interface

	// A buffer takes memory only while it holds data. Its size fills the link, whose delay is some 100 microseconds,
	// and bounds the cost of a sandbox that stops reading.
	maxBuffer = 256 << 10
	minBuffer = 4 << 10

	synRetries = 2               // of a SYN-ACK, after 1 and 3 seconds: then a half-open connection ends
	finTimeout = 5 * time.Second // for the sandbox's FIN after ours
	timeWait   = time.Second     // no segment is older: the link has no queue
	maxRetries = 6               // of a segment: some 15 seconds
)

// newStack makes the TCP/IP stack behind a device. It takes packets to any address, and hands new connections and
// sessions to the gate.
func (g *gate) newStack(link stack.LinkEndpoint) error {
	quiet()
	g.stack = stack.New(stack.Options{
		Clock: clock{tcpip.NewStdClock(), g},
		NetworkProtocols: []stack.NetworkProtocolFactory{
			ipv4.NewProtocol,
			ipv6.NewProtocolWithOptions(ipv6.Options{DADConfigs: stack.DADConfigurations{}}),
			arp.NewProtocol,
		},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4,
			icmp.NewProtocol6},
	})
	step := steps{}
	step.do("interface", g.stack.CreateNIC(nic, link))
	step.do("promiscuous mode", g.stack.SetPromiscuousMode(nic, true))
	step.do("spoofing", g.stack.SetSpoofing(nic, true))
	for _, a := range []netip.Addr{sandbox.LinkGateway4, sandbox.LinkGateway6} {
		step.do("address", g.stack.AddProtocolAddress(nic, tcpip.ProtocolAddress{
			Protocol:          protocolOf(a),
			AddressWithPrefix: tcpip.AddrFromSlice(a.AsSlice()).WithPrefix(),
		}, stack.AddressProperties{}))
	}
	g.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic},
		{Destination: header.IPv6EmptySubnet, NIC: nic}})
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: minBuffer, Default: maxBuffer, Max: maxBuffer}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: minBuffer, Default: maxBuffer, Max: maxBuffer}
	sack, moderate := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(false)
	syn, retries := tcpip.TCPSynRetriesOption(synRetries), tcpip.TCPMaxRetriesOption(maxRetries)
	fin, wait := tcpip.TCPLingerTimeoutOption(finTimeout), tcpip.TCPTimeWaitTimeoutOption(timeWait)
	for _, option := range []tcpip.SettableTransportProtocolOption{&receive, &send, &sack, &moderate, &syn, &retries,
		&fin, &wait} {
		step.do("option of TCP", g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, option))
	}
	g.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(g.stack, maxBuffer, maxHalfOpen,
		g.connect).HandlePacket)
	g.stack.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(g.stack, g.datagram).HandlePacket)
	return step.err
}

// quiet discards the log of gVisor's packages, as packets of a sandbox can cause entries.
var quiet = sync.OnceFunc(func() { log.SetTarget(&log.Writer{Next: io.Discard}) })

// steps keeps the first error of several steps.
type steps struct{ err error }

func (s *steps) do(what string, err tcpip.Error) {
	if err != nil && s.err == nil {
		s.err = &sandbox.Error{Op: "stack: " + what, Msg: err.String()}
	}
}

func protocolOf(a netip.Addr) tcpip.NetworkProtocolNumber {
	if a.Is4() {
		return header.IPv4ProtocolNumber
	}
	return header.IPv6ProtocolNumber
}

// addressOf returns an address of the stack in its canonical form.
func addressOf(a tcpip.Address, port uint16) netip.AddrPort {
	address, _ := netip.AddrFromSlice(a.AsSlice())
	return netip.AddrPortFrom(rules.Canonical(address), port)
}
