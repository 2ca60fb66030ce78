package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/egress/egresstest"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/racing"
)

const floodUDP = `
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try: s.sendto(b"x", ("93.184.216.50", 99))
    except OSError: pass
`

// TestGateCPU: two sandboxes of 0.1 CPU that flood their networks take about 0.2 CPUs of the server; they took 0.4, and
// another key's runs came eight times less often.
func TestGateCPU(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: it takes 20 s; package egress tests the pace of one gate")
	}
	if !egresstest.Inside(t) {
		return
	}
	isNetworkReady(t)
	w := egresstest.New(t)
	w.Datagrams("93.184.216.50:99", func([]byte) {})
	path, secrets := keysFile(t, "flooder", "other")
	d := &dayServer{t: t, dir: shortDir(t), backend: "native", key: secrets[0],
		flags: []string{"--api-key-file", path, "--slots", "8"}}
	d.start()
	flooder, other := d.client, d.as(secrets[1])
	defer func() {
		for c, names := range map[*client.Client][]string{flooder: {"f0", "f1"}, other: {"o"}} {
			for _, name := range names {
				_ = c.Remove(context.Background(), name)
			}
		}
		d.stop(os.Interrupt)
	}()
	create := func(c *client.Client, name string, cpus float64) {
		network := answer.NetworkRequest(sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
		if _, _, err := c.Create(t.Context(), api.SandboxRequest{Name: name,
			Isolation: api.Isolation{Limits: api.Limits{CPUs: &cpus}, Network: network}}); err != nil {
			t.Fatal(err)
		}
	}
	create(other, "o", 1)
	quiet := medianRun(t, other, "o")
	for _, name := range []string{"f0", "f1"} {
		create(flooder, name, 0.1)
		if _, err := flooder.Start(t.Context(), name, api.SandboxRunRequest{
			Program: api.Program{Command: []string{"/usr/bin/python3", "-c", floodUDP}}}); err != nil {
			t.Fatal(err)
		}
	}
	waitUntil(t, "flood", func() bool { return w.Counts()["udp 93.184.216.50:99"] > 0 })
	const window = 5 * time.Second
	before, began := cpuOf(t, d.cmd.Process.Pid), time.Now()
	time.Sleep(window)
	used := float64(cpuOf(t, d.cmd.Process.Pid)-before) / float64(time.Since(began))
	t.Logf("the server took %.2f CPUs; the median of another key's run was %s, and is %s", used, quiet,
		medianRun(t, other, "o"))
	if used > 0.3 && !racing.On {
		t.Errorf("two sandboxes of 0.1 CPU cost the server %.2f CPUs", used)
	}
}

// medianRun is the median time of short runs in a sandbox.
func medianRun(t *testing.T, c *client.Client, name string) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 500 {
		began := time.Now()
		if _, err := c.Run(t.Context(), name, api.SandboxRunRequest{
			Program: api.Program{Command: []string{"/bin/true"}}}); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// cpuOf is the CPU time of a process, with a resolution of 10 ms (proc(5)).
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), ") ")
	ticks := 0
	for _, field := range strings.Fields(after)[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
