package docker

import (
	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// counters are a container's control group, as this host sees it.
type counters struct {
	group *cgroup.Group
	pid   int // of the container's first process
}

// countersOf finds the control group of a container's process; nil if it is not on this host.
func countersOf(to *connection, pid int) *counters {
	if !to.local || pid <= 0 {
		return nil
	}
	group, err := cgroup.Of(pid)
	if err != nil {
		return nil
	}
	return &counters{group, pid}
}

func (c *counters) read(u *sandbox.Usage) { *u = c.group.Usage() }

// limits returns the limits set in the kernel; ok is false if they are unknown.
func (c *counters) limits() (memory, cpuMillis, pids int64, ok bool) {
	if c == nil {
		return 0, 0, 0, false
	}
	l := c.group.Limits()
	return l.MemoryBytes, l.CPUMillis, l.Pids, true
}
