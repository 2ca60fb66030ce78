//go:build unix

package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Process returns the CPU time that this process has taken.
func Process() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
