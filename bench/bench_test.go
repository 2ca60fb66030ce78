package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPercentileIsANearestRank(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		samples []time.Duration
		p       float64
		want    time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 1, 7},
		{[]time.Duration{7}, 100, 7},
		{[]time.Duration{1, 2}, 50, 1},
		{[]time.Duration{1, 2, 3}, 50, 2},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 99.5, 100},
		{hundred, 0, 1},
	} {
		if got := percentile(c.samples, c.p); got != c.want {
			t.Errorf("percentile(%d samples, %v) = %d, want %d", len(c.samples), c.p, got, c.want)
		}
	}
}

func TestSummarizeLeavesTheSamplesInOrder(t *testing.T) {
	samples := []time.Duration{3, 1, 2}
	s := summarize(samples)
	if s != (summary{n: 3, p50: 2, p90: 3, p99: 3, max: 3}) {
		t.Errorf("%+v", s)
	}
	if !slices.Equal(samples, []time.Duration{3, 1, 2}) {
		t.Errorf("the samples are now %v", samples)
	}
}

func TestRatioWithoutAPeer(t *testing.T) {
	if r := ratio(3, 2); r != 1.5 {
		t.Errorf("%v", r)
	}
	if !math.IsNaN(ratio(3, 0)) || !math.IsNaN(ratio(0, 3)) {
		t.Error("a ratio to nothing is a number")
	}
}

func TestTheOutputOfARowIsChecked(t *testing.T) {
	r := &row{want: "42\n"}
	if err := r.check("42\n"); err != nil {
		t.Error(err)
	}
	if r.check("42") == nil || r.check("") == nil {
		t.Error("wrong output passed")
	}
}

func TestArrivalsHaveTheirRate(t *testing.T) {
	due := arrivals(rand.New(rand.NewPCG(1, 1)), 1000, 10*time.Second)
	if n := len(due); n < 9500 || n > 10500 { // 5 standard deviations
		t.Errorf("%d arrivals", n)
	}
	if !slices.IsSorted(due) || due[len(due)-1] >= 10*time.Second {
		t.Error("out of order or out of time")
	}
	if !slices.Equal(due, arrivals(rand.New(rand.NewPCG(1, 1)), 1000, 10*time.Second)) {
		t.Error("the same seed gave other arrivals")
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		target target
		want   string
	}{
		{target{measured: 1.6, bound: 1.6}, "met"},
		{target{measured: 1.61, bound: 1.6}, "NOT MET"},
		{target{measured: 0.6, bound: 0.6, least: true}, "met"},
		{target{measured: 0.59, bound: 0.6, least: true}, "NOT MET"},
		{target{measured: math.NaN(), bound: 1}, "not measured"},
	} {
		if got := c.target.verdict(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.target, got, c.want)
		}
	}
}

func TestTargetsWithoutMeasurements(t *testing.T) {
	f := figures{floodGrowth: -1}
	for _, x := range f.targets() {
		if x.verdict() != "not measured" {
			t.Errorf("%s: %s", x.name, x.verdict())
		}
	}
}

func TestOrphansAreCounted(t *testing.T) {
	o, err := newOrphanage()
	if err != nil {
		t.Fatal(err)
	}
	o.note()
	// The shell ends at once; its child keeps running.
	busy := "(i=0; while ((i < 100000)); do ((i++)); done) >/dev/null 2>&1 &"
	if _, _, err := runCommand(t.Context(), []string{bashPath, "-c", busy}); err != nil {
		t.Fatal(err)
	}
	cost, err := o.reap()
	if err != nil || cost < 10*time.Millisecond {
		t.Errorf("the orphan cost %v, %v", cost, err)
	}
	if again, err := o.reap(); err != nil || again != 0 {
		t.Errorf("a second time: %v, %v", again, err)
	}
}
