package egresstest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// canary sees each packet that arrives at an interface.
type canary struct {
	file *os.File

	mu      sync.Mutex
	packets map[string]int // by description
	marks   map[string][]byte
	found   []string
	arrived chan struct{} // closed by the next barrier
	barrier []byte
}

const canaryBuffer = 8 << 20 // bytes of packets that wait to be read; a lost one fails the test

// watch starts the canaries at the internet's interface and at the host's loopback.
func (w *World) watch() {
	w.t.Helper()
	w.loopback.open(w, "lo")
	w.do(func() { w.outside.open(w, "in0") })
}

func (c *canary) open(w *World, name string) {
	w.t.Helper()
	c.packets, c.marks = map[string]int{}, map[string][]byte{}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all))
	if err != nil {
		w.t.Fatal(err)
	}
	c.file = os.NewFile(uintptr(fd), name)
	at, err := net.InterfaceByName(name)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: at.Index})
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, canaryBuffer)
	}
	raw, failed := c.file.SyscallConn()
	if err != nil || failed != nil {
		w.t.Fatal(err, failed)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1<<17)
		_ = raw.Read(func(fd uintptr) bool { // it ends when the file is closed
			for {
				n, from, err := unix.Recvfrom(int(fd), b, 0)
				if err != nil {
					return false
				}
				if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype != unix.PACKET_OUTGOING {
					c.see(b[:n])
				}
			}
		})
	}()
	w.t.Cleanup(func() {
		var lost int
		_ = raw.Control(func(fd uintptr) {
			if s, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err != nil ||
				s.Drops > 0 {
				lost = 1
			}
		})
		c.file.Close()
		<-done
		if lost > 0 {
			w.t.Errorf("the canary at %s missed packets", name)
		}
	})
}

// see counts a packet.
func (c *canary) see(frame []byte) {
	what := describe(frame)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.barrier != nil && bytes.Contains(frame, c.barrier) {
		close(c.arrived)
		c.barrier = nil
		return
	}
	for name, mark := range c.marks {
		if bytes.Contains(frame, mark) {
			c.found = append(c.found, name+" in "+what)
		}
	}
	if what != "" {
		c.packets[what]++
	}
}

// describe returns the protocol and the destination of a packet, "" for those of the link itself (ARP, neighbours,
// multicast groups). A TCP segment without data is a "syn" if it opens a connection, else "".
func describe(frame []byte) string {
	if len(frame) < 14 {
		return "short"
	}
	b := frame[14:]
	var to netip.Addr
	var protocol byte
	switch kind := binary.BigEndian.Uint16(frame[12:]); {
	case kind == unix.ETH_P_ARP:
		return ""
	case kind == unix.ETH_P_IP && len(b) >= 20 && len(b) >= int(b[0]&15)*4:
		total := int(binary.BigEndian.Uint16(b[2:]))
		to, protocol = netip.AddrFrom4([4]byte(b[16:20])), b[9]
		if binary.BigEndian.Uint16(b[6:])&0x1fff != 0 { // it has no header of its protocol
			return "fragment " + to.String()
		}
		b = b[int(b[0]&15)*4 : min(max(total, int(b[0]&15)*4), len(b))]
	case kind == unix.ETH_P_IPV6 && len(b) >= 40:
		to, protocol = netip.AddrFrom16([16]byte(b[24:40])), b[6]
		b = b[40:]
		if protocol == 0 && len(b) >= 8 { // hop-by-hop options, of multicast listener reports
			protocol, b = b[0], b[8:]
		}
		if protocol == unix.IPPROTO_ICMPV6 && len(b) > 0 && (b[0] >= 130 && b[0] <= 137 || b[0] == 143) {
			return ""
		}
	default:
		return fmt.Sprintf("type %#x", kind)
	}
	switch {
	case protocol == unix.IPPROTO_TCP && len(b) >= 20:
		at := netip.AddrPortFrom(to, binary.BigEndian.Uint16(b[2:]))
		switch header := int(b[12]>>4) * 4; {
		case len(b) > header:
			return "tcp " + at.String()
		case b[13]&2 != 0:
			return "syn " + at.String()
		}
		return ""
	case protocol == unix.IPPROTO_UDP && len(b) >= 8:
		return "udp " + netip.AddrPortFrom(to, binary.BigEndian.Uint16(b[2:])).String()
	}
	return fmt.Sprintf("protocol %d %s", protocol, to)
}

// barrierTimeout bounds the way of a barrier from the host to the internet, on a busy machine.
const barrierTimeout = 30 * time.Second

// pass waits until the packets that were sent before have arrived.
func (w *World) pass(c *canary, to string) {
	w.t.Helper()
	w.barriers++
	c.mu.Lock()
	c.barrier, c.arrived = fmt.Appendf(nil, "egresstest barrier %d %d", os.Getpid(), w.barriers), make(chan struct{})
	mark, arrived := c.barrier, c.arrived
	c.mu.Unlock()
	out, err := net.Dial("udp", to)
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	if _, err := out.Write(mark); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-arrived:
	case <-time.After(barrierTimeout):
		w.t.Fatal("the canary does not see packets")
	}
}

// Seen describes the packets that have reached the internet since the last call, in order: "tcp ADDRESS:PORT" with
// data, "syn" for a connection without data, "udp", or the number of a protocol. It does not list queries to the host's
// resolver: Asked has them.
func (w *World) Seen() []string {
	w.t.Helper()
	counts := w.Counts()
	maps.DeleteFunc(counts, func(what string, _ int) bool { return what == "udp "+Resolver+":53" })
	for what := range counts {
		if to, sent := strings.CutPrefix(what, "tcp "); sent {
			delete(counts, "syn "+to) // of the same connections
		}
	}
	return slices.Sorted(maps.Keys(counts))
}

// Counts returns the number of packets by description.
func (w *World) Counts() map[string]int {
	w.t.Helper()
	w.pass(&w.outside, internet+":9")
	return w.outside.take()
}

// SeenByHost describes the packets that have reached the host's own services since the last call.
func (w *World) SeenByHost() []string {
	w.t.Helper()
	w.pass(&w.loopback, "127.0.0.1:9")
	counts := w.loopback.take()
	// nobody listens at the barrier's port
	maps.DeleteFunc(counts, func(what string, _ int) bool { return what == "protocol 1 127.0.0.1" })
	return slices.Sorted(maps.Keys(counts))
}

func (c *canary) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.packets
	c.packets = map[string]int{}
	return counts
}

// Mark makes the canaries look for a value in every packet.
func (w *World) Mark(name, value string) {
	for _, c := range []*canary{&w.outside, &w.loopback} {
		c.mu.Lock()
		c.marks[name] = []byte(value)
		c.mu.Unlock()
	}
}

// Found lists the packets that had marked values.
func (w *World) Found() (list []string) {
	for _, c := range []*canary{&w.outside, &w.loopback} {
		c.mu.Lock()
		list = append(list, c.found...)
		c.mu.Unlock()
	}
	return list
}
