//go:build linux

package main

import (
	"sync"
	_ "unsafe" // for linkname
)

// latencyMonitoring is gVisor's. Its first call starts a goroutine that wakes every 400 µs for the life of a sandbox, to decide whether
// waiting threads should spin. That costs each idle sandbox 3 % of a processor, and no option turns it off.
//
//go:linkname latencyMonitoring gvisor.dev/gvisor/pkg/sentry/platform/systrap.latencyMonitoring
var latencyMonitoring sync.Once

// neverSpin makes the first call instead. Waiting threads then sleep, which is the initial state.
func neverSpin() { latencyMonitoring.Do(func() {}) }
