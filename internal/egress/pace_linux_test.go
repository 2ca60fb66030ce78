package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/racing"
)

// floodFor sends datagrams, and prints for how many seconds it did.
const floodFor = `
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
began = time.monotonic()
while time.monotonic() < began + 1:
    for i in range(100): s.sendto(bytes(100), ("9.9.9.9", 99))
print(time.monotonic() - began)
`

// TestGateCost: what a sandbox sends passes at the pace of its share of CPU time, and costs not much more.
func TestGateCost(t *testing.T) {
	n := newNeighbours(Limits{})
	sink, err := net.ListenPacket("udp", "127.0.0.1:0") // nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	n.world.at("udp", "9.9.9.9:99", sink.LocalAddr().String())
	spec := sandbox.Spec{Network: allow("9.9.9.9:99"), Limits: sandbox.DefaultLimits}
	spec.Limits.CPUMillis = 100
	p := newPlaceOn(t, n.host, n.world, spec, "")
	before := ownCPU(t)
	out := p.run("/usr/bin/python3 -I - <<'END'\n" + floodFor + "END")
	used := ownCPU(t) - before
	seconds, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
	if err != nil {
		t.Fatal(out)
	}
	share := time.Duration(seconds*float64(spec.Limits.CPUMillis)) * time.Millisecond
	passed := p.gate.Current()[0].Sent / 100
	t.Logf("%d datagrams passed in %.1f s and took %s of CPU time; the share is %s", passed, seconds, used, share)
	if most := (share*3/2 + 2*paceBurst) / frameTime; passed > int64(most) || passed == 0 {
		t.Errorf("%d datagrams passed, and at most %d should", passed, most)
	}
	if used > 4*share && !racing.On {
		t.Errorf("%s of CPU time were used, of %s", used, share)
	}
}

// ownCPU is the CPU time of this process.
func ownCPU(t *testing.T) time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestFrameFlood: a host that sends small frames of HTTP/2 as fast as it can is read at the pace of the gate.
func TestFrameFlood(t *testing.T) {
	p, outside, trust := openPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Inspect: []string{"api.test"}})
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
	flood := bytes.Repeat([]byte{0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 4000) // WINDOW_UPDATE (RFC 9113, section 6.9)
	config := outside.TLS.Clone()
	config.NextProtos = []string{"h2"}
	p.world.at("tcp", "93.184.216.40:443", listenTLS(t, config, func(c net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		for next := settings; ; next = flood {
			if _, err := c.Write(next); err != nil {
				return
			}
		}
	}))
	began := time.Now()
	p.run("curl -s -m 1 --cacert " + trust + " https://api.test/")
	const perSecond = 11 << 20 // of one CPU, with bytes of 100 ns
	most := int64(time.Since(began).Seconds()*perSecond) + 1<<20
	if got := p.gate.meter.received.Load(); got > most || got < 100_000 {
		t.Errorf("%d bytes were read, and at most %d should", got, most)
	}
}

// TestValuesInBody: of a body with values, only the bytes are refunded that the sandbox has sent.
func TestValuesInBody(t *testing.T) {
	policy := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Secrets: []sandbox.Secret{{Name: "TOKEN",
		Hosts: []string{"api.test"}, Value: strings.Repeat("a", rules.MaxValue),
		Places: []sandbox.SecretPlace{sandbox.InBody}}}}
	complete(t, &policy)
	p, outside, trust := openPlace(t, policy)
	p.run("curl -sS --cacert " + trust + " -H Content-Type:application/json -d " +
		strings.Repeat(policy.Secrets[0].Placeholder, 16) + " https://api.test/")
	if !strings.Contains(outside.all(), policy.Secrets[0].Value) {
		t.Fatal("the value was not inserted")
	}
	if charged := time.Duration(p.gate.meter.pace.spent.Load()); charged < 0 {
		t.Errorf("%s were charged", charged)
	}
}

// TestParseCost: reading what a client chose to be expensive costs no more CPU time than it is charged.
func TestParseCost(t *testing.T) {
	for name, line := range map[string]string{"short lines": "a b\n", "requests without an end": "a b HTTP/1.1x\n",
		"long lines":        "a " + strings.Repeat("\tHTTP/1.1", sniff.MaxFirst/9) + "x\n",
		"requests of HTTPS": "a " + strings.Repeat("\t", sniff.MaxFirst/2) + "HTTPS/1.1\n"} {
		lines := bytes.Repeat([]byte(line), 1<<20/len(line))
		var d sniff.Disguise
		before := ownCPU(t)
		if err := d.Client(lines); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		used, charged := ownCPU(t)-before, time.Duration(d.Parsed)*parseTime
		t.Logf("%s: %s of CPU time were used, and %s charged", name, used, charged)
		if used > charged {
			t.Errorf("%s: %s of CPU time were used, and %s charged", name, used, charged)
		}
	}
}

// TestDecideCost: deciding about an address with many names of many labels costs not much more than is charged.
func TestDecideCost(t *testing.T) {
	p := allow("*.example.org:443")
	p.Deny = []string{"*.example.net"}
	policy, err := rules.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{meter: newMeter(newBudget(Limits{}), "", 0)}
	f := &flow{gate: g, to: netip.MustParseAddrPort(site + ":99")}
	for i := range maxPinNames {
		g.pins.add(f.to.Addr(), strings.Repeat("a.", 118)+strconv.Itoa(i), time.Now())
	}
	const times = 100
	before := ownCPU(t)
	for range times {
		if v := policy.Decide(f.destination()); v.Allowed {
			t.Fatal(v)
		}
	}
	used, charged := ownCPU(t)-before, time.Duration(g.meter.pace.spent.Load())+times*attemptTime
	t.Logf("%s of CPU time were used, and %s charged", used, charged)
	if used > 4*charged && !racing.On {
		t.Errorf("%s of CPU time were used, and %s charged", used, charged)
	}
}

// TestRecordCost: the addresses that the host's resolver returns are charged, as package net sorts them, and their
// memory is claimed.
func TestRecordCost(t *testing.T) {
	g := &gate{meter: newMeter(newBudget(Limits{}), "", 0)}
	g.options.Resolve = func(context.Context, string, string) ([]netip.Addr, error) {
		if g.meter.bytes != questionMemory {
			t.Errorf("%d bytes are claimed", g.meter.bytes)
		}
		return make([]netip.Addr, 4000), nil
	}
	policy, err := rules.Compile(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	if err != nil {
		t.Fatal(err)
	}
	g.rules.Store(policy)
	g.ending.ctx = t.Context()
	if _, err := g.resolve("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	if charged := time.Duration(g.meter.pace.spent.Load()); charged < 50*time.Millisecond || g.meter.bytes != 0 {
		t.Errorf("%s were charged, and %d bytes are still claimed", charged, g.meter.bytes)
	}
}

// TestIdentifyCost: the same holds for finding out what a connection is, however small the packets are that begin it.
func TestIdentifyCost(t *testing.T) {
	const small = "\x16\x03\x01\x00\x01" // the header of a record of one byte
	for name, sent := range map[string]string{"TLS": "\x16\x03\x01\x3f\xff" + strings.Repeat("\x01", 1<<14),
		"TLS in small records": small + "\x01" + small + "\x00" + small + "\x3f" + strings.Repeat(small+"\xff", 2000),
		"a method":             strings.Repeat("A", 1<<14),
		"empty lines":          strings.Repeat("\r\n", 1<<13)} {
		g := &gate{meter: newMeter(newBudget(Limits{}), "", 0)}
		i := &inspector{c: &conn{flow: flow{gate: g}}}
		before := ownCPU(t)
		for n := 1; n < len(sent); n += 10 {
			if err := i.identify([]byte(sent[:n]), false); !errors.Is(err, sniff.ErrMore) {
				t.Fatalf("%s, %d bytes: %v", name, n, err)
			}
		}
		used, charged := ownCPU(t)-before, time.Duration(g.meter.pace.spent.Load())
		t.Logf("%s: %s of CPU time were used, and %s charged", name, used, charged)
		if used > 4*charged && !racing.On {
			t.Errorf("%s: %s of CPU time were used, and %s charged", name, used, charged)
		}
	}
}

// TestEmptyLinesCost: the same holds for following empty lines before a request, of which a connection has thousands
// and then a byte in each packet.
func TestEmptyLinesCost(t *testing.T) {
	var f sniff.Framer
	if _, _, err := f.Feed(bytes.Repeat([]byte("\r\n"), 15_000)); err != nil {
		t.Fatal(err)
	}
	const packets = 2000
	before := ownCPU(t)
	for range packets {
		if _, _, err := f.Feed([]byte("\n")); err != nil || f.Pending() {
			t.Fatal(err)
		}
	}
	used, charged := ownCPU(t)-before, packets*frameTime
	t.Logf("%s of CPU time were used, and %s charged", used, charged)
	if used > charged {
		t.Errorf("%s of CPU time were used, and %s charged", used, charged)
	}
}
