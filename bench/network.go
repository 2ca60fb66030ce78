package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// networkFigures are compared with the targets of the gate. NaN is not measured.
type networkFigures struct {
	measured    bool
	direct      time.Duration // p50 of a small request
	through     time.Duration // the same through the gate
	down, up    float64       // Gbit/s of one stream through the gate
	slirpDown   float64       // through slirp4netns
	slirpUp     float64
	start       time.Duration // what a gate adds to a sandbox's start, p50
	idle        float64       // KiB of a gate without traffic
	held        float64       // MiB of heldConnections
	refusedMiB  float64       // growth under refused attempts
	uncounted   int           // refused attempts that the log lacks
	slirpReason string        // why slirp4netns was not measured
}

const (
	heldConnections = 5000
	idleGates       = 50
	benchAddress    = "93.184.216.34:80" // of the peer that serves, through the gate
	slirpGateway    = "10.0.2.2"         // the host's loopback in slirp4netns
)

// network measures the gate with traffic between processes of this bench, over loopback and their own namespaces.
func (r *report) network(ctx context.Context) error {
	if err := tap.Available(); err != nil || os.Getuid() != 0 {
		fmt.Fprintf(r.w, "\nNetwork: not measured: requires root and /dev/net/tun: %v\n", err)
		return nil
	}
	f := &r.figures.network
	*f = networkFigures{slirpDown: math.NaN(), slirpUp: math.NaN()}
	parts := []func(context.Context, *networkFigures) error{r.idleGates, r.refusedAttempts, r.paths, r.gatedStarts}
	for _, part := range parts {
		if err := part(ctx, f); err != nil {
			return err
		}
	}
	f.measured = true
	t := newTable(r.w, "Network", "figure", "direct", "gate", "slirp4netns")
	t.line("a small request, p50 microseconds", micros(f.direct), micros(f.through), "")
	t.line("one stream down, Gbit/s", "", gigabits(f.down), gigabits(f.slirpDown))
	t.line("one stream up, Gbit/s", "", gigabits(f.up), gigabits(f.slirpUp))
	t.line("what the gate adds to a run's start, p50 ms", "", fmt.Sprintf("%.2f", milliseconds(f.start)), "")
	t.line("an idle gate, KiB", "", fmt.Sprintf("%.0f", f.idle), "")
	t.line(fmt.Sprintf("%d connections, MiB", heldConnections), "", fmt.Sprintf("%.0f", f.held), "")
	t.line("growth under refused attempts, MiB", "", fmt.Sprintf("%.1f", f.refusedMiB), "")
	t.Flush()
	if f.slirpReason != "" {
		fmt.Fprintln(r.w, "slirp4netns was not measured:", f.slirpReason)
	}
	return nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func gigabits(g float64) string {
	if math.IsNaN(g) {
		return "-"
	}
	return fmt.Sprintf("%.2f", g)
}

// gated is a peer whose network ends in a gate of this process.
type gated struct {
	*peer
	gate sandbox.Passage
}

// startGated starts a peer that can reach only the server, an address to which the gate connects over TCP.
func startGated(ctx context.Context, server string) (*gated, error) {
	host, _, _ := strings.Cut(benchAddress, ":")
	p, err := startPeer(ctx, true)
	if err != nil {
		return nil, err
	}
	ns, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", p.cmd.Process.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	defer unix.Close(ns)
	device, err := tap.Make(ctx, tap.Place{FD: ns}, false)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}
	gateHost := &egress.Host{Options: egress.Options{Dial: dial},
		Limits: egress.Limits{Connections: 4 * heldConnections, Bytes: 4 << 30}}
	policy := sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: []string{host},
		MaxConnections: heldConnections, ConnectionRate: 1e6}
	g, err := gateHost.Open(device, sandbox.Spec{Network: policy, Limits: sandbox.DefaultLimits}, "",
		func(p any) { panic(p) })
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return &gated{p, g}, nil
}

func (g *gated) stop() error { return errors.Join(g.peer.stop(), g.gate.Close()) }

// idleGates measures the memory of an idle gate.
func (r *report) idleGates(ctx context.Context, f *networkFigures) (err error) {
	first, err := startGated(ctx, "") // allocates what all gates share
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.stop()) }()
	before := ownMemory()
	for range idleGates {
		g, failed := startGated(ctx, "")
		if failed != nil {
			return errors.Join(err, failed)
		}
		defer func() { err = errors.Join(err, g.stop()) }()
	}
	f.idle = (ownMemory() - before) / idleGates / 1024
	return nil
}

// paths compares three ways to one server: direct, through the gate, and through slirp4netns.
func (r *report) paths(ctx context.Context, f *networkFigures) (err error) {
	var peers []*peer
	start := func(apart bool) *peer {
		p, failed := startPeer(ctx, apart)
		if err = errors.Join(err, failed); failed == nil {
			peers = append(peers, p)
		}
		return p
	}
	defer func() {
		for _, p := range peers {
			err = errors.Join(err, p.stop())
		}
	}()
	server, direct := start(false), start(false)
	if err != nil {
		return err
	}
	at, err := server.do("serve", "127.0.0.1:0")
	if err != nil {
		return err
	}
	gate, err := startGated(ctx, at[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gate.stop()) }()
	slirp := start(true)
	if err != nil {
		return err
	}
	stop, failed := startSlirp(ctx, slirp)
	if failed != nil {
		f.slirpReason, slirp = failed.Error(), nil
	} else {
		defer stop()
	}
	if err := r.smallRequests(direct, at[0], gate, f); err != nil {
		return err
	}
	if err := r.streams(gate, slirp, at[0], f); err != nil {
		return err
	}
	before := ownMemory()
	if _, err := gate.do("hold", benchAddress, heldConnections); err != nil {
		return err
	}
	f.held = (ownMemory() - before) / (1 << 20)
	return nil
}

const requestBatch = 200 // consecutive small requests on one way

func (r *report) smallRequests(direct *peer, at string, gate *gated, f *networkFigures) error {
	var one, other []time.Duration
	for range max(r.Runs/20, 5) {
		a, err := direct.times("request", at, requestBatch)
		if err != nil {
			return err
		}
		b, err := gate.times("request", benchAddress, requestBatch)
		if err != nil {
			return err
		}
		one, other = append(one, a...), append(other, b...)
	}
	f.direct, f.through = summarize(one).p50, summarize(other).p50
	return nil
}

// streams measures the best of several single streams through the gate and slirp4netns, alternating. Noise only slows
// a stream down.
func (r *report) streams(gate *gated, slirp *peer, at string, f *networkFigures) error {
	const size = 128 << 20
	_, port, _ := strings.Cut(at, ":")
	best := func(into *float64, p *peer, way, to string) error {
		took, err := p.times(way, to, size)
		if err == nil && !(*into > size*8/1e9/took[0].Seconds()) {
			*into = size * 8 / 1e9 / took[0].Seconds()
		}
		return err
	}
	for range max(r.Runs/100, 3) {
		for way, into := range map[string][2]*float64{"down": {&f.down, &f.slirpDown}, "up": {&f.up, &f.slirpUp}} {
			if err := best(into[0], gate.peer, way, benchAddress); err != nil {
				return err
			}
			if slirp == nil {
				continue
			}
			if err := best(into[1], slirp, way, slirpGateway+":"+port); err != nil {
				return err
			}
		}
	}
	return nil
}

// startSlirp gives a peer a network by slirp4netns, with the MTU that a sandbox has.
func startSlirp(ctx context.Context, p *peer) (stop func(), err error) {
	path, err := exec.LookPath("slirp4netns")
	if err != nil {
		return nil, err
	}
	ready, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	cmd := exec.CommandContext(ctx, path, "--configure", "--mtu", strconv.Itoa(sandbox.LinkMTU), "--ready-fd", "3",
		strconv.Itoa(p.cmd.Process.Pid), "tap0")
	cmd.ExtraFiles = []*os.File{tell}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Start()
	tell.Close()
	if err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	if b, _ := io.ReadAll(io.LimitReader(ready, 1)); len(b) == 0 {
		stop()
		return nil, fmt.Errorf("slirp4netns did not start: %s", strings.TrimSpace(said.String()))
	}
	return stop, nil
}

// refusedAttempts measures the memory that many refused attempts leave, and counts those that the log lacks.
func (r *report) refusedAttempts(ctx context.Context, f *networkFigures) (err error) {
	attempts := 100_000
	if r.Runs < fullPlan().Runs {
		attempts = 5_000
	}
	g, err := startGated(ctx, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	before := ownMemory()
	refused, err := g.do("refused", "-", attempts)
	if err != nil {
		return err
	}
	if refused[0] != strconv.Itoa(attempts) {
		return fmt.Errorf("%s of %d attempts were refused", refused[0], attempts)
	}
	f.refusedMiB = (ownMemory() - before) / (1 << 20)
	f.uncounted = attempts - int(g.gate.Summary().Refused)
	return nil
}

func (r *report) gatedStarts(ctx context.Context, f *networkFigures) error {
	run := func(ctx context.Context, s *liveserver.Server) error { return r.compareStarts(ctx, s, f) }
	return r.served(run, "--backend", "native", "--warm", "0")(ctx)
}

// compareStarts compares runs with and without a network, alternating.
func (r *report) compareStarts(ctx context.Context, s *liveserver.Server, f *networkFigures) error {
	without := (&liveserver.Request{Language: bash, Code: bashProgram}).Encode()
	network := `,"network":{"mode":"restricted","allow":["bench.test"]}}`
	with := append(without[:len(without)-1:len(without)-1], network...)
	var took [2][]time.Duration
	for i := range 2 * (warmups + max(r.Runs/2, 20)) {
		which := [4]int{0, 1, 1, 0}[i%4] // a run may slow its successor, so each follows either equally often
		body := [][]byte{without, with}[which]
		began := time.Now()
		if _, err := post(ctx, s, body); err != nil {
			return err
		}
		if i >= 2*warmups {
			took[which] = append(took[which], time.Since(began))
		}
		if err := awaitIdle(s); err != nil {
			return err
		}
	}
	f.start = summarize(took[1]).p50 - summarize(took[0]).p50
	return nil
}

// ownMemory returns the bytes of this process's heap and stacks, without what the collector can release. Resident
// memory would hide growth, since the kernel takes pages from an idle process.
func ownMemory() float64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Sys - m.HeapReleased)
}

func (f *networkFigures) targets() []target {
	if !f.measured {
		return nil
	}
	return []target{
		atMost("a small request through the gate, p50, over direct", microseconds(f.through-f.direct), 130, " us"),
		atLeast("one stream down / slirp4netns", f.down/f.slirpDown, 3, "x"),
		atLeast("one stream up / slirp4netns", f.up/f.slirpUp, 3, "x"),
		atMost("5,000 connections through the gate", f.held, 120, " MiB"),
		atMost("a start with the gate over one without, p50", milliseconds(f.start), 2, " ms"),
		atMost("an idle gate", f.idle, 256, " KiB"),
		atMost("growth under refused attempts", f.refusedMiB, 16, " MiB"),
		atMost("refused attempts that are not counted", float64(f.uncounted), 0, ""),
	}
}
