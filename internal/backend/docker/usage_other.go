//go:build !linux

package docker

import "github.com/fumehood-dev/fumehood/sandbox"

// counters are never available: containers are not on this host.
type counters struct{ pid int }

func countersOf(*connection, int) *counters { return nil }

func (*counters) read(*sandbox.Usage) {}

func (*counters) limits() (memory, cpuMillis, pids int64, ok bool) { return 0, 0, 0, false }
