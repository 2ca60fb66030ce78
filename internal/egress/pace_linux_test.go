package egress

import (
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
