package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// figures are compared with the project's targets. NaN and 0 mean not measured.
type figures struct {
	rows map[string]summary

	capacity float64 // runs a second, the best of the closed loop

	burst       *loop   // of clients of a server
	burstRatio  float64 // its throughput over that of bare loops
	floorRatio  float64 // and over that of isolation alone
	floodGrowth int64   // bytes, the maximum of all runs; negative before the first

	living  livingFigures
	client  clientFigures
	e2b     e2bFigures
	network networkFigures

	packages packageFigures
	images   imageFigures
	volume   time.Duration // added by a volume to a fresh run, p50; 0 is not measured

	ownerless float64 // p50 of run beside sandboxes without a server, over that alone; 0 is not measured
	prints    float64 // the time of 20,000 prints on gvisor over that on native
	largeLeft int64   // bytes that a server has some time after large requests
}

// Names of rows that are compared with containers and with runsc.
const (
	dockerHTTP = "fumehood HTTP docker python, nothing warm"
	gvisorHTTP = "fumehood HTTP gvisor python"
)

// target is one of the project's own targets.
type target struct {
	name     string
	measured float64 // NaN if not measured
	bound    float64
	least    bool // the bound is a minimum
	unit     string
}

func (t target) verdict() string {
	switch {
	case math.IsNaN(t.measured):
		return "not measured"
	case t.least && t.measured >= t.bound, !t.least && t.measured <= t.bound:
		return "met"
	}
	return "NOT MET"
}

func (t target) bounds() string {
	if t.least {
		return fmt.Sprintf(">= %g%s", t.bound, t.unit)
	}
	return fmt.Sprintf("<= %g%s", t.bound, t.unit)
}

func atMost(name string, measured, bound float64, unit string) target {
	return target{name: name, measured: measured, bound: bound, unit: unit}
}

func atLeast(name string, measured, bound float64, unit string) target {
	return target{name: name, measured: measured, bound: bound, unit: unit, least: true}
}

func (f *figures) targets() []target {
	over := func(row, peer string) float64 { return ratio(f.rows[row].p50, f.rows[peer].p50) }
	spread := func(row string) float64 { return ratio(f.rows[row].p99, f.rows[row].p50) }
	const (
		httpPython, httpBash, runsc = "fumehood HTTP python", "fumehood HTTP bash", "runsc run python"
	)
	throughput, ofFloor, failures, growth := math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if f.burst != nil {
		throughput, ofFloor, failures = f.burstRatio, f.floorRatio, float64(len(f.burst.failures))
	}
	if f.floodGrowth >= 0 {
		growth = toMiB(f.floodGrowth)
	}
	list := []target{
		atMost("Python over HTTP p50 / bare Python", over(httpPython, "bare python"), 0.45, "x"),
		atMost("Bash over HTTP p50 / bubblewrap Bash", over(httpBash, "bubblewrap bash"), 0.6, "x"),
		atMost("Python over HTTP p99 / p50", spread(httpPython), 3, "x"),
		atMost("Bash over HTTP p99 / p50", spread(httpBash), 3, "x"),
		atMost("fumehood run p50 / bare Python", over("fumehood run -c", "bare python"), 2, "x"),
		atLeast("throughput at 32 clients / bare loops on all CPUs", throughput, 0.6, "x"),
		atLeast("throughput at 32 clients / isolation alone", ofFloor, 0.5, "x"),
		atMost("failures at 32 clients", failures, 0, ""),
		atMost("growth of the server under 100 MB of stdout", growth, flatBytes>>20, " MiB"),
		atMost("Docker: fresh Python, nothing warm / docker run", over(dockerHTTP, "docker python"), 1.1, "x"),
		atMost("gVisor: fresh Python, nothing warm / runsc run", over(gvisorHTTP+", nothing warm", runsc), 1.2, "x"),
		atMost("gVisor: fresh Python / runsc run", over(gvisorHTTP, runsc), 0.35, "x"),
		f.ownerlessTarget(),
		f.printsTarget(),
		volumeTarget(f.volume),
	}
	if f.largeLeft > 0 {
		list = append(list, atMost("memory kept of large requests", toMiB(f.largeLeft), largeLeft>>20, " MiB"))
	}
	return slices.Concat(list, f.living.targets(), f.client.targets(), f.e2b.targets(),
		f.network.targets(), f.packages.targets(), f.images.targets())
}

// print reports for each target whether this run met it.
func (f *figures) print(w io.Writer) {
	t := newTable(w, "Targets (a verdict only on this run, on this machine, with this load)",
		"figure", "target", "measured", "verdict")
	for _, x := range f.targets() {
		measured := "-"
		if !math.IsNaN(x.measured) {
			measured = fmt.Sprintf("%.2f%s", x.measured, x.unit)
		}
		t.line(x.name, x.bounds(), measured, x.verdict())
	}
	t.Flush()
}
