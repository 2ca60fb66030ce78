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
	return summary{n: len(sorted), p50: percentile(sorted, 50), p90: percentile(sorted, 90), p99: percentile(sorted, 99),
		max: percentile(sorted, 100)}
}

// percentile uses the nearest rank: the smallest sample that at least p per cent of all do not exceed. It never
// interpolates. Without samples it is 0.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// ratio is a/b, or NaN without b.
func ratio(a, b time.Duration) float64 {
	if b <= 0 || a <= 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}
