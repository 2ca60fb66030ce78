package liveserver

import "math/rand/v2"

// Interleave returns a list with counts[i] times index i, shuffled by the seed, so that a slow minute affects all
// alike.
func Interleave(counts []int, seed uint64) []int {
	var order []int
	for i, n := range counts {
		for range n {
			order = append(order, i)
		}
	}
	r := rand.New(rand.NewPCG(seed, seed))
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}
