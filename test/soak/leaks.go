package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// holdings are what an idle server holds.
type holdings struct {
	fds, goroutines     int // goroutines is -1 if /metrics lacks it
	rss                 int64
	warm                int // warm boxes: each has its process, its folder and its control groups
	processes           int
	boxes, groups       int
	processesOfSandbox  string
	boxesNames, ofGroup string
}

// Growth over a whole soak that is not a leak: connections and pools made on first use, and heap that is not yet returned to
// the kernel.
const (
	slackFDs        = 16
	slackGoroutines = 16
	slackRSS        = 32 << 20
)

const (
	settleTimeout = 15 * time.Second
	settlePoll    = 50 * time.Millisecond
)

// settled waits until nothing of a run is left, or a time-out, and returns what the server then holds.
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
	children := liveserver.Sandboxes(s.PID())
	h.processes, h.processesOfSandbox = len(children), fmt.Sprint(children)
	in, err := liveserver.InstanceOf(runDir, s.PID())
	if err != nil {
		return h, err
	}
	boxes, groups := in.Boxes(), in.SandboxGroups()
	h.boxes, h.boxesNames = len(boxes), fmt.Sprint(boxes)
	h.groups, h.ofGroup = len(groups), fmt.Sprint(groups)
	return h, nil
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
	left := func(name string, n int, which string) {
		if n > after.warm {
			found = append(found, fmt.Sprintf("%d %s are left with %d warm boxes: %s", n, name, after.warm, which))
		}
	}
	left("processes", after.processes, after.processesOfSandbox)
	left("sandbox folders", after.boxes, after.boxesNames)
	left("control groups", after.groups, after.ofGroup)
	return found
}
