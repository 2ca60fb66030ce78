package main

import (
	"math"
	"slices"
	"time"
)

// summary is a table's figures for many samples.
type summary struct {
	n                  int
	p50, p90, p99, max time.Duration
}

// summarize uses all samples; none is trimmed.
func summarize(samples []time.Duration) summary {
	sorted := slices.Sorted(slices.Values(samples))
	at := func(p float64) time.Duration { return percentile(sorted, p) }
	return summary{n: len(sorted), p50: at(50), p90: at(90), p99: at(99), max: at(100)}
}

// percentile returns the nearest rank: the smallest sample that at least p per cent of all do not exceed. It does not
// interpolate, and returns 0 without samples.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// ratio returns a/b, or NaN if one of them was not measured.
func ratio(a, b time.Duration) float64 {
	if b <= 0 || a <= 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}
