package main

import (
	"fmt"
	"io"
	"math"
	"time"
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

// dockerHTTP is our row of fresh containers without warm ones.
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

func (f *figures) targets() []target {
	p50 := func(name string) time.Duration { return f.rows[name].p50 }
	spread := func(name string) float64 { return ratio(f.rows[name].p99, f.rows[name].p50) }
	const (
		httpPython, httpBash = "fumehood HTTP python", "fumehood HTTP bash"
	)
	list := []target{
		{name: "Python over HTTP p50 / bare Python", measured: ratio(p50(httpPython), p50("bare python")), bound: 1.6, unit: "x"},
		{name: "Bash over HTTP p50 / bubblewrap Bash", measured: ratio(p50(httpBash), p50("bubblewrap bash")), bound: 1.5, unit: "x"},
		{name: "Python over HTTP p99 / p50", measured: spread(httpPython), bound: 3, unit: "x"},
		{name: "Bash over HTTP p99 / p50", measured: spread(httpBash), bound: 3, unit: "x"},
		{name: "fumehood run p50 / bare Python", measured: ratio(p50("fumehood run -c"), p50("bare python")), bound: 3.5, unit: "x"},
		{name: "throughput at 32 clients / bare loops on all CPUs", measured: math.NaN(), bound: 0.6, least: true, unit: "x"},
		{name: "failures at 32 clients", measured: math.NaN(), bound: 0},
		{name: "growth of the server under 100 MB of stdout, MiB", measured: math.NaN(), bound: flatBytes >> 20},
	}
	const fresh, runsc = "fumehood HTTP gvisor python", "runsc run python"
	list = append(list,
		target{name: "Docker: fresh Python over HTTP, nothing warm / docker run", measured: ratio(p50(dockerHTTP), p50("docker python")), bound: 1.1, unit: "x"},
		target{name: "gVisor: fresh Python over HTTP, nothing warm / runsc run", measured: ratio(p50(fresh+", nothing warm"), p50(runsc)), bound: 1.2, unit: "x"},
		target{name: "gVisor: fresh Python over HTTP / runsc run", measured: ratio(p50(fresh), p50(runsc)), bound: 0.35, unit: "x"},
		f.printsTarget())
	if f.burstRan {
		list[5].measured, list[6].measured = f.burstRatio, float64(f.burstFailures)
	}
	if f.floodRan {
		list[7].measured = float64(f.floodGrowth) / (1 << 20)
	}
	if f.largeLeft > 0 {
		list = append(list, target{name: "what the server keeps of large requests, MiB", measured: float64(f.largeLeft) / (1 << 20), bound: largeLeft >> 20})
	}
	return append(append(append(list, f.living.targets()...), f.network.targets()...), f.packages.targets()...)
}

// print reports for each target whether this run met it.
func (f *figures) print(w io.Writer) {
	t := newTable(w, "Targets (a verdict on this run, on this machine, as busy as it was)", "figure", "target", "measured", "verdict")
	for _, x := range f.targets() {
		measured := "-"
		if !math.IsNaN(x.measured) {
			measured = fmt.Sprintf("%.2f%s", x.measured, x.unit)
		}
		t.line(x.name, x.bounds(), measured, x.verdict())
	}
	t.Flush()
}
