// Package route asks the kernel where this host would deliver packets.
package route

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Type returns the type of the route by which this host would send to an address, such as unix.RTN_LOCAL, for packets
// of a protocol to a port unless that is 0: the kernel's own answer, which covers addresses of interfaces, prefixes
// that a route makes local, and broadcast addresses. It is unix.RTN_UNREACHABLE without a route. It costs four system
// calls. Source: rtnetlink(7), RTM_GETROUTE.
func Type(to netip.AddrPort, protocol byte) (byte, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(socket)
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(socket, request(to, protocol), 0, kernel); err != nil {
		return 0, os.NewSyscallError("sendto", err)
	}
	var b [4096]byte
	n, _, err := unix.Recvfrom(socket, b[:], unix.MSG_DONTWAIT) // the kernel has answered when sendto returns
	if err != nil {
		return 0, os.NewSyscallError("recvfrom", err)
	}
	return answer(b[:n])
}

func request(to netip.AddrPort, protocol byte) []byte {
	family, address := byte(unix.AF_INET6), to.Addr().AsSlice()
	if to.Addr().Is4() {
		family = unix.AF_INET
	}
	b := make([]byte, unix.SizeofNlMsghdr, 64) // completed below
	// struct rtmsg: family, lengths of destination and source, service, and 8 bytes of the answer
	b = append(b, family, byte(to.Addr().BitLen()), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = appendAttribute(b, unix.RTA_DST, address)
	if to.Port() != 0 { // rules may select a table by both (ip-rule(8))
		b = appendAttribute(b, unix.RTA_IP_PROTO, []byte{protocol})
		b = appendAttribute(b, unix.RTA_DPORT, binary.BigEndian.AppendUint16(nil, to.Port()))
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_GETROUTE)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	return b
}

// appendAttribute appends a struct rtattr with its value, aligned to 4 bytes.
func appendAttribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, -len(value)&3)...)
}

func answer(b []byte) (byte, error) {
	const typeAt = unix.SizeofNlMsghdr + 7 // in struct rtmsg
	if len(b) < unix.SizeofNlMsghdr+unix.SizeofRtMsg {
		return 0, errors.New("a short answer")
	}
	switch kind := binary.NativeEndian.Uint16(b[4:]); kind {
	case unix.RTM_NEWROUTE:
		return b[typeAt], nil
	case unix.NLMSG_ERROR:
		switch err := unix.Errno(-int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:]))); err {
		case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL, unix.EAFNOSUPPORT, unix.EOPNOTSUPP:
			return unix.RTN_UNREACHABLE, nil
		default:
			return 0, err
		}
	default:
		return 0, errors.New("an unexpected answer")
	}
}
