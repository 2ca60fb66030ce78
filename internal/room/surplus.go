package room

// Surplus returns which of n things, the oldest first, goes when there are too many: the oldest of the owner with the
// most, so that no owner removes those of one with fewer.
func Surplus(n int, owner func(int) string) (first int) {
	count, most := map[string]int{}, 0
	for i := range n {
		o := owner(i)
		count[o]++
		most = max(most, count[o])
	}
	for count[owner(first)] < most {
		first++
	}
	return first
}
