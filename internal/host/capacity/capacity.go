// Package capacity reports how much memory, CPUs and so on this host has, to bound the limits.
package capacity

import (
	"runtime"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Host returns the largest meaningful value of each limit: the memory, CPUs and process ids of the host or, if lower, of the
// control groups around this process, and the open files of this process. Writable places lie in memory. Zero means unknown
// or unlimited.
func Host() sandbox.Limits {
	l := sandbox.Limits{CPUMillis: int64(runtime.NumCPU()) * 1000}
	measure(&l)
	l.DiskBytes = l.MemoryBytes
	return l
}
