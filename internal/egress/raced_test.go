//go:build race

package egress

// With the race detector, code takes many times the CPU time that it takes without, so tests do not compare it.
const raced = true
