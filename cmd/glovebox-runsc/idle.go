//go:build linux

package main

import (
	"sync"
	_ "unsafe" // for linkname
)

// latencyMonitoring is gVisor's: the first to call it starts a goroutine that wakes every 400 µs for as long as a sandbox lives, to decide
// whether threads that wait are to spin. That is 3 % of a processor for each sandbox that does nothing, and no option turns it off.
//
//go:linkname latencyMonitoring gvisor.dev/gvisor/pkg/sentry/platform/systrap.latencyMonitoring
var latencyMonitoring sync.Once

// neverSpin is the first to call it. Threads that wait then sleep, which is what they begin with.
func neverSpin() { latencyMonitoring.Do(func() {}) }
