//go:build race

// Package racing reports whether the race detector runs, which makes code take several times its time and memory.
package racing

const On = true
