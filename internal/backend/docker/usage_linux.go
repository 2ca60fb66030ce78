package docker

import (
	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// counters are a container's control group, as this host sees it.
type counters struct {
	group *cgroup.Group
	pid   int // of the container's first process
}

// countersOf finds the group of a process of a container, or returns nil where it is not on this host.
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

func (c *counters) read(u *sandbox.Usage) {
	g := c.group.Usage()
	u.CPU, u.MemoryPeak, u.MemoryNow, u.OOMKills, u.PidsNow = g.CPU, g.MemoryPeak, g.MemoryNow, g.OOMKills, g.Pids
}

// limits are those that the kernel holds the group to; ok is false where they are not known.
func (c *counters) limits() (memory, cpuMillis, pids int64, ok bool) {
	if c == nil {
		return 0, 0, 0, false
	}
	l := c.group.Limits()
	return l.MemoryBytes, l.CPUMillis, l.Pids, true
}
