package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// volumes measures what a volume adds to a fresh run, p50. It needs root, and a host that mounts loop devices.
func (r *report) volumes(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		fmt.Fprintln(r.w, "volumes: not measured without root")
		return nil
	}
	dir, err := os.MkdirTemp("", "bench-state-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	create := exec.CommandContext(ctx, r.binary, "volume", "create", "data", "--state-dir", dir)
	if out, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("create a volume: %w: %s", err, out)
	}
	run := func(ctx context.Context, s *liveserver.Server) (err error) {
		r.figures.volume, err = added(ctx, s, func(int) (a, b liveserver.Request) {
			a.Code, b.Code = "pass", "pass"
			b.Volumes = []liveserver.Volume{{Name: "data", Path: "/data"}}
			return a, b
		})
		return err
	}
	err = r.served(run, "--warm", "0", "--backend", "native", "--state-dir", dir)(ctx)
	t := newTable(r.w, "Volumes", "figure", "measured")
	t.line("a volume adds to a fresh run, p50 ms", fmt.Sprintf("%.2f", milliseconds(r.figures.volume)))
	t.Flush()
	return err
}

func volumeTarget(volume time.Duration) target {
	measured := math.NaN()
	if volume != 0 {
		measured = milliseconds(volume)
	}
	return atMost("a volume adds to a fresh run", measured, 3, " ms")
}
