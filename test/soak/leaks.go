package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// holdings are the resources of an idle server.
type holdings struct {
	fds, goroutines     int // goroutines is -1 if /metrics lacks it
	rss                 int64
	warm                int // warm boxes, each with a process, a folder and control groups
	pids, boxes, groups []string
}

// Growth over a whole soak that is no leak: connections and pools created on first use, and heap that is not yet
// returned to the kernel.
const (
	slackFDs        = 16
	slackGoroutines = 16
	slackRSS        = 32 << 20
)

const (
	settleTimeout = 15 * time.Second
	settlePoll    = 50 * time.Millisecond
)

// settled waits until nothing of a run remains, or a timeout, and returns the server's holdings.
func settled(ctx context.Context, s *liveserver.Server, runDir string) (holdings, error) {
	s.CloseIdle()
	deadline := time.Now().Add(settleTimeout)
	for {
		warm, idle := s.Idle(ctx)
		h, err := hold(ctx, s, runDir)
		h.warm = warm
		if err != nil || idle || time.Now().After(deadline) || ctx.Err() != nil {
			return h, err
		}
		time.Sleep(settlePoll)
	}
}

func hold(ctx context.Context, s *liveserver.Server, runDir string) (h holdings, err error) {
	if h.fds, err = liveserver.Descriptors(s.PID()); err != nil {
		return h, err
	}
	m, err := liveserver.ReadMemory(s.PID())
	if err != nil {
		return h, err
	}
	h.rss, h.goroutines = m.RSS, -1
	if n, ok := s.Metric(ctx, "go_goroutines"); ok {
		h.goroutines = int(n)
	}
	for _, pid := range liveserver.Sandboxes(s.PID()) {
		h.pids = append(h.pids, fmt.Sprint(pid))
	}
	in, err := liveserver.InstanceOf(runDir, s.PID())
	h.boxes, h.groups = in.Boxes(), in.SandboxGroups()
	return h, err
}

// leaks compares the holdings at the end with those after the warm-up.
func leaks(before, after holdings) (found []string) {
	grew := func(name string, from, to, slack int64) {
		if to > from+slack {
			found = append(found, fmt.Sprintf("%s grew from %d to %d", name, from, to))
		}
	}
	grew("descriptors", int64(before.fds), int64(after.fds), slackFDs)
	grew("goroutines", int64(before.goroutines), int64(after.goroutines), slackGoroutines)
	grew("resident bytes", before.rss, after.rss, slackRSS)
	remain := func(name string, list []string) {
		if len(list) > after.warm {
			found = append(found, fmt.Sprintf("%d %s remain with %d warm boxes: %v", len(list), name, after.warm, list))
		}
	}
	remain("processes", after.pids)
	remain("sandbox folders", after.boxes)
	remain("control groups", after.groups)
	return found
}
