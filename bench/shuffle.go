package main

import "math/rand/v2"

// interleave returns a list with counts[i] times index i, shuffled by the seed, so that a slow minute affects all rows
// alike.
func interleave(counts []int, seed uint64) []int {
	var order []int
	for i, n := range counts {
		for range n {
			order = append(order, i)
		}
	}
	r := newRand(seed)
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// newRand is the only source of randomness: equal seeds give equal runs.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }
