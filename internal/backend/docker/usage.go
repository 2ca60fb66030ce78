package docker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Usage reads the container's control group counters, on this host or through the engine. After the end it returns the
// last ones seen.
func (box *Box) Usage(ctx context.Context) (sandbox.Usage, error) {
	if box.Alive() != nil {
		box.mu.Lock()
		defer box.mu.Unlock()
		return box.last, nil
	}
	u := sandbox.Usage{CPU: -1, MemoryPeak: -1, MemoryNow: -1, OOMKills: -1, PidsNow: -1, PidsRefused: -1,
		DiskWritten: -1}
	if box.counters != nil {
		box.counters.read(&u)
	} else {
		box.ask(ctx, &u)
	}
	u.Wall = time.Since(box.Began)
	box.mu.Lock()
	defer box.mu.Unlock()
	box.last = latest(box.last, u)
	return box.last, nil
}

// latest merges figures: the unknown keep their earlier value, and counters never decrease.
func latest(before, now sandbox.Usage) sandbox.Usage {
	now.CPU = max(now.CPU, before.CPU)
	now.MemoryPeak = max(now.MemoryPeak, before.MemoryPeak)
	now.OOMKills = max(now.OOMKills, before.OOMKills)
	return now
}

// ask queries the engine, which reports only whether any process was killed for want of memory, not how many.
func (box *Box) ask(ctx context.Context, u *sandbox.Usage) {
	to := box.to
	var s container.StatsResponse
	err := to.ask(ctx, "count", callTimeout, func(ctx context.Context) error {
		answer, err := to.api.ContainerStats(ctx, box.name(), client.ContainerStatsOptions{})
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		return json.NewDecoder(answer.Body).Decode(&s)
	})
	if err == nil && s.MemoryStats.Usage > 0 {
		u.CPU = time.Duration(s.CPUStats.CPUUsage.TotalUsage)
		u.MemoryNow, u.PidsNow = int64(s.MemoryStats.Usage), int64(s.PidsStats.Current)
		u.MemoryPeak = int64(max(s.MemoryStats.MaxUsage, s.MemoryStats.Usage))
	}
	if state, err := box.state(ctx); err == nil {
		u.OOMKills = 0
		if state.OOMKilled {
			u.OOMKills = 1
		}
	}
}
