//go:build linux

package egress

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress/egresstest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// prelude is of all attacks. They run as root in the sandbox's network, with all that code in a sandbox lacks: raw
// sockets, own frames.
const prelude = `
import os, socket, struct, sys, threading
def tcp(host, port, data=b"canary", family=0, hear=False):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    s.settimeout(5)
    try:
        s.connect((host, port)); s.sendall(data)
        if hear: return s.recv(4096)
    except OSError as e: return e
    finally: s.close()
def udp(host, port, data=b"canary", hear=False):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.settimeout(5)
    try:
        s.sendto(data, (host, port))
        if hear: return s.recv(4096)
    except OSError as e: return e
def look(name):
    try: return sorted({a[4][0] for a in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)})
    except OSError as e: return []
def add(b):
    b += b"\0" * (len(b) % 2)
    n = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    while n >> 16: n = (n & 0xffff) + (n >> 16)
    return ~n & 0xffff
def ip4(to, protocol, body, source="198.18.0.2", options=b"", fragment=0, ident=7):
    h = struct.pack("!BBHHHBBH4s4s", 0x40 + 5 + len(options) // 4, 0, 20 + len(options) + len(body), ident, fragment,
        64, protocol, 0, socket.inet_aton(source), socket.inet_aton(to)) + options
    return h[:10] + struct.pack("!H", add(h)) + h[12:] + body
def ip6(to, following, body, source="fd00:6675:6d65::2"):
    return struct.pack("!IHBB", 6 << 28, len(body), following, 64) + (
        socket.inet_pton(10, source) + socket.inet_pton(10, to) + body)
def segment(source, to, port, flags, data=b"", sport=4444, seq=1000, ack=0):
    h = struct.pack("!HHIIBBHHH", sport, port, seq, ack, 0x50, flags, 65535, 0, 0) + data
    pseudo = socket.inet_aton(source) + socket.inet_aton(to) + struct.pack("!BBH", 0, 6, len(h))
    return h[:16] + struct.pack("!H", add(pseudo + h)) + h[18:]
def datagram(port, data, source=5555): return struct.pack("!HHHH", source, port, 8 + len(data), 0) + data
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
wire.bind(("eth0", 0))
mine = open("/sys/class/net/eth0/address").read().strip()
mine = bytes.fromhex(mine.replace(":", ""))
def gateway():
    for line in os.popen("ip neigh show dev eth0"):
        if line.startswith("198.18.0.1 "): return bytes.fromhex(line.split("lladdr ")[1].split()[0].replace(":", ""))
theirs = gateway()
def frame(packet, kind=0x0800, to=None, source=None):
    wire.send((to or theirs) + (source or mine) + struct.pack("!H", kind) + packet)
`

// attackCase is one attack. What it may reach is in passes, as egresstest.World.Seen says it, and in asks, for names.
// All else must not cause one packet outside of the sandbox.
type attackCase struct {
	name   string
	policy sandbox.NetworkPolicy
	code   string // Python after the prelude; what it prints is for whoever repairs a failure
	passes []string
	asks   []string
	prints string // how its output must end
}

const (
	webOfSite  = "tcp " + site + ":80"
	tlsOfSite  = "tcp " + site + ":443"
	secretMark = "canary-7d0c41-value"
)

// TestCanaries makes every attack on a gate that nothing is replaced in, before an internet that counts packets.
func TestCanaries(t *testing.T) {
	if !egresstest.Inside(t) {
		return
	}
	w := egresstest.New(t)
	w.Web(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			rw.Header().Set("Location", to)
			rw.WriteHeader(http.StatusFound)
		}
		fmt.Fprintf(rw, "%s%s", r.Host, r.URL.Path)
	}))
	for name, at := range map[string]string{"good.test": site, "evil.test": "93.184.216.66", "mate.test": site,
		"metadata.test": "169.254.169.254", "lo.test": "127.0.0.1",
		"here.test": "11.22.40.7 2a00:7::9", "all.test": "5.5.5.255",
		"host.test": egresstest.HostAddress, "flush.test": "93.184.1.1",
		"six.test": "2606:2800:220:1::1 fd00:ec2::254 ::ffff:10.0.0.1", "nat.test": "64:ff9b::a9fe:a9fe"} {
		w.Name(name, at)
	}
	ownPort := hostServer(t)
	w.Host(`route add local 11.22.40.0/24 dev lo
addr add 11.22.33.1/25 brd + dev out0
route add broadcast 11.22.33.255 dev out0 table local`)
	if egresstest.Has6() {
		w.Host("-6 route add local 2a00:7::/64 dev lo")
	}
	for _, c := range attackCases(ownPort) {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "rebinding" {
				w.Name("rebind.test", site, "127.0.0.1", "169.254.169.254", egresstest.HostAddress, "10.0.0.1",
					"::1 ::ffff:127.0.0.1")
			}
			c.policy.Allow = append(slices.Clone(c.policy.Allow), "flush.test:80")
			p := newPlaceWith(t, c.policy, func(o *Options) { o.Dial, o.Resolve = nil, nil })
			const python = "/usr/bin/python3 -I - <<'END' && curl -sS http://flush.test/flushed\n"
			out := p.run(python + prelude + c.code + "\nEND")
			// What passes the gate passes in order, so by now all did: the last request is also the control.
			if !strings.HasSuffix(out, c.prints+"flush.test/flushed") {
				t.Errorf("it printed %q, which should end with %q", out, c.prints+"flush.test/flushed")
			}
			seen := without(w.Seen(), "tcp 93.184.1.1:80")
			if fmt.Sprint(seen) != fmt.Sprint(c.passes) {
				t.Errorf("%q reached the internet, and only %q should\n%s", seen, c.passes, out)
			}
			if asked := without(w.Asked(), "flush.test"); !within(asked, c.asks) {
				t.Errorf("%q were resolved, and only %q should\n%s", asked, c.asks, out)
			}
			if seen := w.SeenByHost(); len(seen) > 0 {
				t.Errorf("%q reached the host\n%s", seen, out)
			}
			if t.Failed() {
				for _, a := range p.gate.Last(1000) {
					if a.Allowed {
						t.Logf("allowed: %s %s %s:%d %s", a.Protocol, a.Name, a.Address, a.Port, a.Rule)
					}
				}
			}
		})
	}
}

// hostServer listens on the host at every address, and returns at which port. Packets to it fail the test, whether it
// answers or not.
func hostServer(t *testing.T) int {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func without(list []string, gone string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == gone })
}

func within(list, allowed []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !slices.Contains(allowed, s) })
}
