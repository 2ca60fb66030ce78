// Package capacity reports this host's memory, CPUs, processes and files, to bound the limits.
package capacity

import (
	"runtime"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Host returns the largest meaningful value of each limit: the memory, CPUs and process ids of the host or, if lower,
// of this process's control groups, and the open files of this process. Writable places are in memory. Zero is unknown
// or unlimited.
func Host() sandbox.Limits {
	l := sandbox.Limits{CPUMillis: int64(runtime.NumCPU()) * 1000}
	measure(&l)
	l.DiskBytes = l.MemoryBytes
	return l
}
