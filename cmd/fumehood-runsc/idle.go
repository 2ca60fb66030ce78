//go:build linux

package main

import (
	"sync"
	_ "unsafe" // for linkname
)

// latencyMonitoring is gVisor's. Its first call starts a goroutine that wakes every 400 µs while a sandbox lives, to
// decide whether waiting threads should spin. That costs each idle sandbox 3 % of a CPU, and no option disables it.
//
//go:linkname latencyMonitoring gvisor.dev/gvisor/pkg/sentry/platform/systrap.latencyMonitoring
var latencyMonitoring sync.Once

// neverSpin makes the first call without effect. Waiting threads then keep sleeping.
func neverSpin() { latencyMonitoring.Do(func() {}) }
