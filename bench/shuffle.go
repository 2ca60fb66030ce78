package main

import "math/rand/v2"

// interleave returns a list in which index i stands counts[i] times, shuffled by the seed. So a slow minute of the machine falls on
// all rows alike.
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

// newRand is the one source of chance here: the same seed gives the same run.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }
