package backendtest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// linkCases test sandbox.Linker.
var linkCases = []testCase{
	{"link", "packets of the code arrive at the outer end, and answers reach the code: names, connections", testLink},
	{"link tools", "common programs resolve names, find certificates and connect, as on any machine", testTools},
	{"link unread", "while nobody reads the outer end, or holds it, nothing passes; then it can be had again",
		testUnread},
	{"link held", "one at a time holds the outer end; a sandbox that has ended has none", testHeld},
	{"link fixed", "the code can neither change its interface, nor make another, nor send raw frames", testFixed},
	{"no link", "a sandbox without a network has loopback only, and no outer end", testNoLink},
}

// Links tests the network of a backend's sandboxes. Run includes it on a host that supports networks.
func Links(t *testing.T, open Open) { runCases(t, open, linkCases) }

// linkedSpec returns a spec with a network, or skips the test if this host cannot provide one.
func linkedSpec(t *testing.T, b sandbox.Backend) sandbox.Spec {
	t.Helper()
	s := spec()
	s.Network = networkHere(t, b, s)
	if !s.Network.Linked() {
		Skip(t, "network", "see above")
	}
	return s
}

// networkHere returns the network for a box of this spec: none if this host cannot provide one.
func networkHere(t *testing.T, b sandbox.Backend, s sandbox.Spec) sandbox.NetworkPolicy {
	t.Helper()
	s.Network = sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{"canary.example"}}
	_, err := b.(sandbox.Preflighter).Preflight(s)
	switch {
	case err == nil, len(sandbox.UnenforcedOf(err)) > 0:
		return s.Network
	case sandbox.KindOf(err) != sandbox.Unsupported || sandbox.FixOf(err) == "":
		t.Errorf("without a network, and without a fix: %v", err)
	}
	t.Logf("without a network: %v", err)
	return sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}
}

// linksAgain tests the network of a reattached box: nothing has passed since its server died, and its outer end can be
// opened again.
func linksAgain(t *testing.T, box sandbox.Box) {
	t.Helper()
	if !box.Effective().Network.Linked() {
		return
	}
	try := func(want string) {
		t.Helper()
		if out, _ := finish(t, startShell(t, dial(t, box), reach)); out != want+"\n" {
			t.Errorf("without a gate the code says %q, want %q", out, want)
		}
	}
	try("nothing")
	gate := hold(t, box)
	try("answered")
	gate.stop(t)
}

// peer is a minimal gate: it answers each question for an IPv4 address with one address, and resets each
// connection.
type peer struct {
	end  io.ReadWriteCloser
	seen chan string // what it was asked, and who was called; closed with the outer end
}

// answer is the address of every name.
var answer = netip.MustParseAddr("192.0.2.7")

// hold opens the outer end of a box's network and answers there until stop.
func hold(t *testing.T, box sandbox.Box) *peer {
	t.Helper()
	end, err := box.(sandbox.Linker).Link(within(t))
	if err != nil {
		t.Fatalf("link: %v", err)
	}
	p := &peer{end: end, seen: make(chan string, 1000)}
	go p.serve(t) // ends with the outer end
	t.Cleanup(func() { p.stop(t) })
	return p
}

// stop closes the outer end and returns the received packets.
func (p *peer) stop(t *testing.T) (all []string) {
	if err := p.end.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Errorf("close: %v", err)
	}
	for s := range p.seen {
		all = append(all, s)
	}
	return all
}

func (p *peer) serve(t *testing.T) {
	defer close(p.seen)
	frame := make([]byte, 1<<17)
	for {
		n, err := p.end.Read(frame)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				t.Errorf("read: %v", err)
			}
			return
		}
		if what, reply := respond(frame[:n]); what != "" {
			p.seen <- what
			if _, err := p.end.Write(reply); err != nil && !errors.Is(err, os.ErrClosed) {
				t.Errorf("write: %v", err)
			}
		}
	}
}

// Lengths of headers.
const (
	vnetHeader = 10
	etherStart = vnetHeader + 14
	ipHeader   = 20 // without options
)

// respond answers a frame of IPv4 with UDP or TCP. The kernel that sent it is trusted here.
func respond(frame []byte) (what string, reply []byte) {
	if len(frame) < etherStart+ipHeader+8 || binary.BigEndian.Uint16(frame[etherStart-2:]) != 0x0800 {
		return "", nil
	}
	ip := frame[etherStart:]
	to, from := netip.AddrFrom4([4]byte(ip[16:20])), netip.AddrFrom4([4]byte(ip[12:16]))
	var payload []byte
	switch l4 := ip[ipHeader:]; ip[9] {
	case 17:
		what, payload = resolve(l4)
	case 6:
		if l4[13] != 2 { // SYN
			return "", nil
		}
		what = "tcp " + netip.AddrPortFrom(to, binary.BigEndian.Uint16(l4[2:])).String()
		// ports; sequence
		payload = append(append([]byte{}, l4[2], l4[3], l4[0], l4[1]), 0, 0, 0, 0)
		// acknowledgement
		payload = binary.BigEndian.AppendUint32(payload, binary.BigEndian.Uint32(l4[4:])+1)
		payload = append(payload, 5<<4, 0x14, 0, 0, 0, 0, 0, 0) // RST, ACK
		// pseudo header
		sum := checksum(append(append(append(to.AsSlice(), from.AsSlice()...), 0, 6, 0, ipHeader), payload...))
		binary.BigEndian.PutUint16(payload[16:], sum)
	}
	if payload == nil {
		return "", nil
	}
	reply = make([]byte, vnetHeader)
	reply = append(append(append(reply, sandbox.LinkHardware...), sandbox.LinkGatewayHardware...), 8, 0)
	head := append([]byte{0x45, 0}, binary.BigEndian.AppendUint16(nil, uint16(ipHeader+len(payload)))...)
	head = append(append(append(head, 0, 0, 0, 0, 64, ip[9], 0, 0), to.AsSlice()...), from.AsSlice()...)
	binary.BigEndian.PutUint16(head[10:], checksum(head))
	return what, append(append(reply, head...), payload...)
}

// resolve answers a datagram to port 53 that asks for one name.
func resolve(udp []byte) (what string, reply []byte) {
	const head = 8 + 12
	end := strings.IndexByte(string(udp[min(head, len(udp)):]), 0) + 5 + head // the name, its end, type, class
	if binary.BigEndian.Uint16(udp[2:]) != 53 || end > len(udp) || end < head+5 {
		return "", nil
	}
	question := udp[head:end]
	dns := append([]byte{udp[8], udp[9], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	if question[len(question)-3] == 1 { // type A
		dns[7] = 1
		dns = append(append(dns, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4), answer.AsSlice()...)
	}
	reply = append([]byte{udp[2], udp[3], udp[0], udp[1]}, binary.BigEndian.AppendUint16(nil, uint16(8+len(dns)))...)
	return "dns " + string(question[1:1+question[0]]), append(append(reply, 0, 0), dns...) // 0: no checksum
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return ^uint16(sum % 0xffff)
}

// ask resolves a name and connects to it, by the C library and by Python.
const ask = `getent ahostsv4 canary.example | head -n 1 | cut -d ' ' -f 1
/usr/bin/python3 -I -c 'if 1:
    import socket
    try:
        socket.create_connection(("canary.example", 443), timeout=5)
    except OSError as e:
        print(type(e).__name__)
    found = socket.getaddrinfo("canary.example", 80, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    print(*{a[4][0] for a in found})'`

func testLink(t *testing.T, s *suite) {
	spec := linkedSpec(t, s.backend)
	box := s.create(t, spec)
	p := box.Effective()
	var detail string
	for _, w := range p.Walls {
		if w.Name == "network" {
			detail = string(w.State) + ": " + w.Detail
		}
	}
	if p.Network.Mode != spec.Network.Mode || len(p.Network.Allow) != 1 ||
		detail != "enforced: one interface, which ends in the gate" {
		t.Errorf("the effective network is %+v; %s", p.Network, detail)
	}
	gate := hold(t, box)
	if out, _ := finish(t,
		startShell(t, dial(t, box), ask)); out != answer.String()+"\nConnectionRefusedError\n"+answer.String()+"\n" {
		t.Errorf("the code says %q", out)
	}
	seen := strings.Join(gate.stop(t), "\n")
	for _, want := range []string{"dns canary", "tcp " + answer.String() + ":443"} {
		if !strings.Contains(seen, want) {
			t.Errorf("%q did not arrive, but\n%s", want, seen)
		}
	}
}

// tools runs programs that connect to a name, each with a pattern of its message for a refused connection. It skips
// programs that the root lacks.
const tools = `try() {
  name=$1 want=$2; shift 2; command -v $1 > /dev/null || return
  out=$("$@" 2>&1); [[ $out =~ $want ]] || echo "$name: $out"
}
try python 'refused.*certificates' /usr/bin/python3 -I -c 'if 1:
    import ssl, urllib.request
    try: urllib.request.urlopen("https://canary.example/", timeout=20)
    except OSError as e: print(e, end=" ")
    c = ssl.create_default_context()
    import os  # a root without the package may have none
    if len(c.get_ca_certs()) > 9 or not os.path.exists("/usr/share/ca-certificates"): print("certificates")'
try asyncio 'ConnectionRefused' /usr/bin/python3 -I -c 'import asyncio
asyncio.run(asyncio.open_connection("canary.example", 443, ssl=True))'
try node '192.0.2.7 IPv4 null ECONNREFUSED true' node -e '
  require("dns").lookup("canary.example", (e, a, f) => fetch("https://canary.example/").catch(
    r => console.log(a, "IPv" + f, e, r.cause.code, require("tls").rootCertificates.length > 9)))'
try resolver '192.0.2.7' node -e 'require("dns").resolve4("canary.example", (e, a) => console.log(e || a[0]))'
try curl '^7$' curl --silent --output /dev/null --write-out '%{exitcode}' https://canary.example/
try git 'refused|connect to canary.example' git ls-remote https://canary.example/x
echo end`

func testTools(t *testing.T, s *suite) {
	box := s.create(t, linkedSpec(t, s.backend))
	hold(t, box)
	if out, _ := finish(t, startShell(t, dial(t, box), tools)); out != "end\n" {
		t.Error(out)
	}
}

// reach connects to an address, for a second at most.
const reach = `/usr/bin/python3 -I -c 'if 1:
    import socket
    s = socket.socket()
    s.settimeout(1)
    try:
        s.connect(("192.0.2.9", 80))
        print("connected")
    except ConnectionRefusedError:
        print("answered")
    except OSError:
        print("nothing")'`

func testUnread(t *testing.T, s *suite) {
	box := s.create(t, linkedSpec(t, s.backend))
	c := dial(t, box)
	try := func(want string) {
		t.Helper()
		if out, _ := finish(t, startShell(t, c, reach)); out != want+"\n" {
			t.Errorf("the code says %q, want %q", out, want)
		}
	}
	try("nothing") // its outer end is the box's own
	for range 2 {
		end, err := box.(sandbox.Linker).Link(within(t))
		if err != nil {
			t.Fatal(err)
		}
		try("nothing") // nobody reads
		if err := end.Close(); err != nil {
			t.Error(err)
		}
		try("nothing") // nobody holds it
		gate := hold(t, box)
		try("answered")
		gate.stop(t)
	}
}

func testHeld(t *testing.T, s *suite) {
	box := s.create(t, linkedSpec(t, s.backend))
	link := func() (io.ReadWriteCloser, error) { return box.(sandbox.Linker).Link(within(t)) }
	end, err := link()
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if again, err := link(); again != nil || sandbox.KindOf(err) != sandbox.Busy {
		t.Errorf("a second end: %v, %v", again, err)
	}
	if d, ok := end.(interface{ SetReadDeadline(time.Time) error }); !ok || d.SetReadDeadline(time.Now()) != nil {
		t.Errorf("%T has no deadlines: it blocks", end)
	}
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	if again, err := box.(sandbox.Linker).Link(ctx); err == nil {
		again.Close()
		t.Error("two hold it")
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := link(); again != nil || sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("after the end: %v, %v", again, err)
	}
}

// change attempts what CAP_NET_ADMIN and CAP_NET_RAW would allow; each line must be refused.
const change = `/usr/bin/python3 -I -c 'if 1:
    import ctypes, fcntl, os, socket, struct
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    address = struct.pack("16sHH4s8x", b"eth0", socket.AF_INET, 0, bytes([10, 0, 0, 1]))
    flags = struct.pack("16sH14x", b"eth0", 0)
    tap = lambda: fcntl.ioctl(os.open("/dev/net/tun", os.O_RDWR), 0x400454ca, struct.pack("16sH14x", b"tap7", 0x1002))
    def setting(name):
        with open("/proc/sys/net/ipv4/" + name, "w") as f:
            f.write("1")
    for name, attempt in {
        "address": lambda: fcntl.ioctl(s, 0x8916, address), "flags": lambda: fcntl.ioctl(s, 0x8914, flags),
        "hardware": lambda: fcntl.ioctl(s, 0x8924, struct.pack("16sH14s", b"eth0", 1, b"\2abcde")),
        "mtu": lambda: fcntl.ioctl(s, 0x8922, struct.pack("16si12x", b"eth0", 9000)),
        "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        "raw6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58),
        "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3),
        "frames": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 3),
        "route": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
        "mark": lambda: s.setsockopt(socket.SOL_SOCKET, 36, 1),
        "tap": tap, "forward": lambda: setting("ip_forward"), "redirects": lambda: setting("conf/all/accept_redirects"),
    }.items():
        try:
            attempt()
            print(name)
        except OSError:
            pass'; echo end; tail -n +3 /proc/net/dev | cut -d : -f 1 | tr -d " "`

func testFixed(t *testing.T, s *suite) {
	box := s.create(t, linkedSpec(t, s.backend))
	hold(t, box)
	out, _ := finish(t, startShell(t, dial(t, box), change))
	done, interfaces, _ := strings.Cut(out, "end\n")
	if done != "" {
		t.Errorf("the code was allowed to change or make: %s", done)
	}
	if names := strings.Fields(interfaces); len(names) != 2 || !strings.Contains(interfaces, sandbox.LinkName) ||
		!strings.Contains(interfaces, "lo") {
		t.Errorf("the interfaces are %q", names)
	}
}

func testNoLink(t *testing.T, s *suite) {
	box := s.create(t, spec())
	if out, _ := finish(t, startShell(t, dial(t, box), "cat /proc/net/dev")); strings.Contains(out, sandbox.LinkName) ||
		!strings.Contains(out, "lo:") {
		t.Errorf("the interfaces are\n%s", out)
	}
	if linker, is := box.(sandbox.Linker); is {
		if end, err := linker.Link(within(t)); end != nil || sandbox.KindOf(err) != sandbox.Unsupported {
			t.Errorf("its outer end is %v, %v", end, err)
		}
	}
}
