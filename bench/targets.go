package main

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// figures are compared with the project's targets. NaN and 0 mean not measured.
type figures struct {
	rows map[string]summary

	capacity float64 // runs a second, the best of the closed loop

	burstRan      bool
	burstFailures int
	burstRatio    float64

	floodRan    bool
	floodGrowth int64 // bytes, the most of all runs
	floodKept   int   // bytes of stdout, the most of all runs

	living  livingFigures
	network networkFigures

	packages packageFigures

	prints    float64 // the time of 20,000 prints on gvisor over that on native
	largeLeft int64   // bytes that a server has some time after large requests
}

func (f *figures) oneClient(rows []*row) {
	f.rows = map[string]summary{}
	for _, r := range rows {
		f.rows[r.name] = summarize(r.samples)
	}
}

func (f *figures) burst(ours, theirs *loop) {
	f.burstRan, f.burstFailures, f.burstRatio = true, len(ours.failures), ours.perSecond()/theirs.perSecond()
}

func (f *figures) flood(growth int64, kept int) {
	f.floodRan = true
	f.floodGrowth, f.floodKept = max(f.floodGrowth, growth), max(f.floodKept, kept)
}

// dockerHTTP names our row of fresh containers without a pool.
const dockerHTTP = "fumehood HTTP docker python, nothing warm"

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
		httpPython, httpBash = "fumehood HTTP python", "fumehood HTTP bash"
		fresh, runsc         = "fumehood HTTP gvisor python", "runsc run python"
	)
	throughput, failures, growth := math.NaN(), math.NaN(), math.NaN()
	if f.burstRan {
		throughput, failures = f.burstRatio, float64(f.burstFailures)
	}
	if f.floodRan {
		growth = toMiB(f.floodGrowth)
	}
	list := []target{
		atMost("Python over HTTP p50 / bare Python", over(httpPython, "bare python"), 1.6, "x"),
		atMost("Bash over HTTP p50 / bubblewrap Bash", over(httpBash, "bubblewrap bash"), 1.5, "x"),
		atMost("Python over HTTP p99 / p50", spread(httpPython), 3, "x"),
		atMost("Bash over HTTP p99 / p50", spread(httpBash), 3, "x"),
		atMost("fumehood run p50 / bare Python", over("fumehood run -c", "bare python"), 3.5, "x"),
		atLeast("throughput at 32 clients / bare loops on all CPUs", throughput, 0.6, "x"),
		atMost("failures at 32 clients", failures, 0, ""),
		atMost("growth of the server under 100 MB of stdout", growth, flatBytes>>20, " MiB"),
		atMost("Docker: fresh Python, nothing warm / docker run", over(dockerHTTP, "docker python"), 1.1, "x"),
		atMost("gVisor: fresh Python, nothing warm / runsc run", over(fresh+", nothing warm", runsc), 1.2, "x"),
		atMost("gVisor: fresh Python / runsc run", over(fresh, runsc), 0.35, "x"),
		f.printsTarget(),
	}
	if f.largeLeft > 0 {
		list = append(list, atMost("memory kept of large requests", toMiB(f.largeLeft), largeLeft>>20, " MiB"))
	}
	return slices.Concat(list, f.living.targets(), f.network.targets(), f.packages.targets())
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
