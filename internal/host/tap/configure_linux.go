package tap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// configure sets the interface's addresses, its route and the gateway's hardware address, and sets it up, by batches of
// messages on a routing socket (rtnetlink(7)), without IPv6 if the host has none.
func configure(socket int) error {
	index, err := opened{socket: socket}.index()
	if err != nil {
		return err
	}
	err = send(socket, []message{
		linkMessage(loopback, unix.IFF_UP),
		linkMessage(index, 0, attribute(unix.IFLA_ADDRESS, sandbox.LinkHardware),
			number(unix.IFLA_MTU, sandbox.LinkMTU),
			number(unix.IFLA_TXQLEN, queue)),
		addressMessage(index, sandbox.LinkAddress4),
	})
	if err != nil {
		return err
	}
	// No link-local address, and so no unanswered searches for neighbours and routers.
	six := nested(unix.IFLA_AF_SPEC, nested(unix.AF_INET6, attribute(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{noAddress})))
	if err := send(socket, []message{linkMessage(index, 0, six)}); err != nil && !lacks6(err) {
		return err
	}
	err = send(socket, []message{linkMessage(index, unix.IFF_UP), routeMessage(index, sandbox.LinkGateway4),
		neighbourMessage(index, sandbox.LinkGateway4)})
	if err != nil {
		return err
	}
	// After the interface is up: the kernel may lose the route of an earlier address for want of memory.
	if err := send(socket, []message{addressMessage(index, sandbox.LinkAddress6)}); lacks6(err) {
		return nil
	} else if err != nil {
		return err
	}
	return send(socket, []message{routeMessage(index, sandbox.LinkGateway6),
		neighbourMessage(index, sandbox.LinkGateway6)})
}

// queue bounds the frames that wait for the outer end. Nothing counts their memory, up to 64 KiB each.
const queue = 256

// loopback is the index of every namespace's first interface. gVisor ignores an interface that is down.
const loopback = 1

// noAddress is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
const noAddress = 1

// lacks6 reports whether an error means that the kernel has no IPv6, or disabled it.
func lacks6(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EACCES)
}

// message is a message of a routing socket without its header.
type message struct {
	kind  uint16
	flags uint16
	body  []byte
}

const create = unix.NLM_F_CREATE | unix.NLM_F_EXCL

// linkMessage changes an interface and sets its flags.
func linkMessage(index int32, flags uint32, attributes ...[]byte) message {
	b := make([]byte, 4, 64) // struct ifinfomsg: family, type
	b = binary.NativeEndian.AppendUint32(b, uint32(index))
	b = binary.NativeEndian.AppendUint32(b, flags)
	b = binary.NativeEndian.AppendUint32(b, flags) // those to change
	return message{unix.RTM_NEWLINK, 0, join(b, attributes)}
}

func addressMessage(index int32, p netip.Prefix) message {
	b := []byte{family(p.Addr()), byte(p.Bits()), 0, unix.RT_SCOPE_UNIVERSE} // struct ifaddrmsg
	b = binary.NativeEndian.AppendUint32(b, uint32(index))
	ip := p.Addr().AsSlice()
	// NODAD: a search for others with the same address takes a second. NOPREFIXROUTE: no address is reached without the
	// gateway. The kernel keeps each that does not answer for three seconds, in a table of all namespaces with few
	// entries (net.ipv6.neigh.default.gc_thresh3).
	return message{unix.RTM_NEWADDR, create, join(b, [][]byte{attribute(unix.IFA_LOCAL, ip),
		attribute(unix.IFA_ADDRESS, ip), number(unix.IFA_FLAGS, unix.IFA_F_NODAD|unix.IFA_F_NOPREFIXROUTE)})}
}

func routeMessage(index int32, gateway netip.Addr) message {
	// struct rtmsg: family, lengths of the destination and the source, service, table, protocol, scope, type, flags
	b := []byte{family(gateway), 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_UNIVERSE,
		unix.RTN_UNICAST}
	b = binary.NativeEndian.AppendUint32(b, unix.RTNH_F_ONLINK)
	return message{unix.RTM_NEWROUTE, create, join(b, [][]byte{attribute(unix.RTA_GATEWAY, gateway.AsSlice()),
		number(unix.RTA_OIF, uint32(index))})}
}

// neighbourMessage sets the gateway's hardware address, so the kernel need not query it.
func neighbourMessage(index int32, gateway netip.Addr) message {
	b := []byte{family(gateway), 0, 0, 0} // struct ndmsg
	b = binary.NativeEndian.AppendUint32(b, uint32(index))
	b = binary.NativeEndian.AppendUint16(b, unix.NUD_PERMANENT)
	b = append(b, 0, unix.RTN_UNICAST)
	return message{unix.RTM_NEWNEIGH, create, join(b, [][]byte{attribute(unix.NDA_DST, gateway.AsSlice()),
		attribute(unix.NDA_LLADDR, sandbox.LinkGatewayHardware)})}
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// attribute is a struct rtattr with its value, aligned to 4 bytes.
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

func number(kind uint16, value uint32) []byte {
	return attribute(kind, binary.NativeEndian.AppendUint32(nil, value))
}

func nested(kind uint16, inner []byte) []byte { return attribute(kind|unix.NLA_F_NESTED, inner) }

func join(b []byte, attributes [][]byte) []byte {
	for _, a := range attributes {
		b = append(b, a...)
	}
	return b
}

// send makes the kernel execute the messages, and returns the first error. The kernel answers each before send(2)
// returns.
func send(socket int, messages []message) error {
	var all []byte
	for i, m := range messages {
		all = binary.NativeEndian.AppendUint32(all, uint32(unix.SizeofNlMsghdr+len(m.body)))
		all = binary.NativeEndian.AppendUint16(all, m.kind)
		all = binary.NativeEndian.AppendUint16(all, m.flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
		all = binary.NativeEndian.AppendUint32(all, uint32(i))
		all = append(all, 0, 0, 0, 0) // no port
		all = append(all, m.body...)
	}
	if err := unix.Sendto(socket, all, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("rtnetlink: %w", err)
	}
	var first error
	answer := make([]byte, 4096)
	for answered := 0; answered < len(messages); {
		n, _, err := unix.Recvfrom(socket, answer, unix.MSG_DONTWAIT)
		if err != nil {
			return fmt.Errorf("rtnetlink: %w", err)
		}
		replies, err := syscall.ParseNetlinkMessage(answer[:n])
		if err != nil {
			return fmt.Errorf("rtnetlink: %w", err)
		}
		for _, r := range replies {
			if r.Header.Type != unix.NLMSG_ERROR || len(r.Data) < 4 {
				continue
			}
			answered++
			if code := int32(binary.NativeEndian.Uint32(r.Data)); code < 0 && first == nil {
				first = fmt.Errorf("rtnetlink: message %d of kind %d: %w", r.Header.Seq,
					messages[min(int(r.Header.Seq), len(messages)-1)].kind, syscall.Errno(-code))
			}
		}
	}
	return first
}
