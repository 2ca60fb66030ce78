// Package capacity says how much this host has of what limits are about.
package capacity

import (
	"runtime"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Host is the most of each limit that means anything here: the host's memory, CPUs and process ids, or what the control groups around
// this process leave of them, and the open files that this process may have. Writable places lie in memory. What is not known, or has no such bound, is zero.
func Host() sandbox.Limits {
	l := sandbox.Limits{CPUMillis: int64(runtime.NumCPU()) * 1000}
	measure(&l)
	l.DiskBytes = l.MemoryBytes
	return l
}
