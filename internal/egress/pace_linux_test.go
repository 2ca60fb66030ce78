package egress

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
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
	if used > 4*share {
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
