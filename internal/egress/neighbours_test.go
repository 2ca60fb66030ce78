//go:build linux

package egress

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress/egresstest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// realPlace is a place whose gate dials and resolves as on any host.
func realPlace(t *testing.T, p sandbox.NetworkPolicy) *place {
	return newPlaceWith(t, p, func(o *Options) { o.Dial, o.Resolve = nil, nil })
}

// received is how many packets came to the sandbox's interface.
func (p *place) received() (n string) {
	p.do(func() {
		b, err := os.ReadFile("/proc/thread-self/net/dev")
		_, after, ok := strings.Cut(string(b), "eth0:")
		if err != nil || !ok {
			p.t.Errorf("no interface: %v", err)
			return
		}
		n = strings.Fields(after)[1]
	})
	return n
}

// TestNeighbours: nothing of one sandbox reaches another, whose addresses are the same.
func TestNeighbours(t *testing.T) {
	if !egresstest.Inside(t) {
		return
	}
	w := egresstest.New(t)
	a, b := realPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}), realPlace(t,
		sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	var l net.Listener
	var err error
	b.do(func() { l, err = net.Listen("tcp", ":31337") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before := b.received()
	out := a.run("/usr/bin/python3 -I - <<'END'\n" + prelude + `
for host in ["198.18.0.1", "198.18.0.2", "198.18.0.3", "198.18.255.255", "fd00:6675:6d65::1", "fd00:6675:6d65::2",
    "5.5.5.2", "10.0.0.2"]:
    tcp(host, 31337); udp(host, 31337)
for to in b"\xff" * 6, mine, theirs, b"\x33\x33\0\0\0\1", b"\1\0\x5e\0\0\1":
    frame(ip4("198.18.0.2", 6, segment("198.18.0.2", "198.18.0.2", 31337, 2)), to=to)
    frame(ip4("198.18.0.2", 17, datagram(31337, b"canary"), source="198.18.0.1"), to=to)
    frame(struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, mine, bytes([198, 18, 0, 1]), bytes(6),
        bytes([198, 18, 0, 2])), 0x0806, to=to)
    frame(ip6("ff02::1", 58, b"\x86\0\0\0" + bytes(12), source="fe80::1"), 0x86dd, to=to) # a router advertisement
print("done")
END`)
	if out != "done" {
		t.Error(out)
	}
	if after := b.received(); after != before {
		t.Errorf("the neighbour received packets: %s, before %s", after, before)
	}
	if seen := append(w.Seen(), w.SeenByHost()...); len(seen) > 0 {
		t.Errorf("%q came out", seen)
	}
}

// TestPortsOfOwners: an owner whose sandboxes open and close connections to one destination leaves ports of the host
// for those of another.
func TestPortsOfOwners(t *testing.T) {
	if !egresstest.Inside(t) {
		return
	}
	w := egresstest.New(t)
	w.Take(25, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	if err := os.WriteFile(portsFile, []byte("40000 40299"), 0); err != nil {
		t.Fatal(err)
	}
	h, spec := &Host{}, sandbox.Spec{Network: allow(site), Limits: sandbox.DefaultLimits}
	spec.Network.ConnectionRate = 1000
	a, b := newPlaceOn(t, h, nil, spec, "a"), newPlaceOn(t, h, nil, spec, "b")
	refused := 0
	for range 310 {
		if c, err := a.dial("tcp", site+":25"); err != nil {
			refused++
		} else {
			c.Close()
		}
	}
	if refused != 160 {
		t.Errorf("%d of 310 connections were refused", refused)
	}
	a.logged("says why", func(at Attempt) bool { return at.Reason == portsFull && !at.Allowed })
	b.mustDial("tcp", site+":25").Close()
}

// flood opens connections as fast as it can, completes none of some, and says nothing on others.
const flood = `
import time
for i in range(COUNT):
    frame(ip4("SITE", 6, segment("198.18.0.2", "SITE", 80, 2, sport=1024 + i % 60000, seq=i)))
    if i % 20 == 0: frame(ip4("SITE", 17, datagram(1000 + i % 60000, b"x", source=1024 + i % 60000)))
held = []
for i in range(COUNT // 10):
    s = socket.socket(); s.settimeout(20)
    try: s.connect(("SITE", 80)); s.send(b"G"); held.append(s)
    except OSError: pass
for i in range(COUNT // 10): tcp("93.184.216.99", 1 + i % 60000)
for i in range(COUNT // 10): look("x%d.evil.test" % i) if i % 50 == 0 else udp("198.18.0.1", 53, os.urandom(40))
print("held", len(held) <= 20)
`

// TestFlood: a sandbox that floods reaches what its bounds allow and no more, each connection on record, while its
// neighbour's requests all come through; afterwards it can go on.
func TestFlood(t *testing.T) {
	if !egresstest.Inside(t) {
		return
	}
	w := egresstest.New(t)
	w.Web(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, r.Host) }))
	w.Name("good.test", "93.184.217.1")
	policy := allow(site+":80", "good.test")
	policy.MaxConnections, policy.ConnectionRate = 20, 100
	a, b := realPlace(t, policy), realPlace(t, allow("good.test"))
	count := "20000"
	if testing.Short() {
		count = "2000" // the packets of a raw socket cost time
	}
	flooded := make(chan string)
	go func() {
		flooded <- a.run("/usr/bin/python3 -I - <<'END'\n" + prelude + strings.NewReplacer("COUNT", count, "SITE",
			site).Replace(flood) + "END")
	}()
	requests, out := 0, ""
	for out == "" {
		select {
		case out = <-flooded:
		default:
			if got := b.run("curl -sS -m 20 http://good.test/"); got != "good.test" {
				t.Errorf("the neighbour got %q", got)
			}
			requests++
		}
	}
	if out != "held True" || requests < 2 {
		t.Errorf("%s; the neighbour made %d requests", out, requests)
	}
	// the connections that were held end, and the next second begins
	a.run("until [ \"$(curl -sS http://good.test/)\" = good.test ]; do :; done")
	dialled := uint64(0)
	for len(a.gate.Current()) > 0 { // what is on record is over
		runtime.Gosched()
	}
	for host, total := range a.gate.Summary().Hosts {
		if host == site {
			dialled = total.Allowed + total.Refused
		}
	}
	counts := w.Counts()
	if n := counts["syn "+site+":80"]; n == 0 || uint64(n) > dialled {
		t.Errorf("%d connections were opened, and the log has %d attempts", n, dialled)
	}
	for what := range counts {
		if !strings.HasSuffix(what, " "+site+":80") && !strings.HasSuffix(what, " 93.184.217.1:80") &&
			what != "udp "+egresstest.Resolver+":53" {
			t.Errorf("%s reached the internet", what)
		}
	}
	for _, name := range w.Asked() {
		if name != "good.test" {
			t.Errorf("the resolver was asked for %s", name)
		}
	}
}
