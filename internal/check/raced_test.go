//go:build race

package check

// With the race detector, pools drop items at random, and regular expressions allocate them again.
const raced = true
