package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

const (
	burstClients = 32
	burstParts   = 4 // alternating with as many bare loops, so that a slow minute affects both
)

// burst compares many clients of one server with loops that spawn bare Python, one per CPU.
func (r *report) burst(ctx context.Context, s *liveserver.Server) error {
	direct := commandRow("bare python", bare, python, pythonPath, "-c", pythonProgram)
	bareRun := func(ctx context.Context) error {
		stdout, _, err := direct.run(ctx)
		if err == nil {
			err = direct.check(stdout)
		}
		return err
	}
	run, settle := pythonRun(s), func() error { return awaitIdle(s) }
	if _, err := r.closed(ctx, course{"warm-up", "python", burstClients, burstClients, run, settle}); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fumehood-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := buildFloor(dir)
	if err != nil {
		fmt.Fprintf(r.w, "skipped: %v\n", err)
	}
	var ours, theirs, least loop
	for range burstParts {
		nothing := func() error { return nil }
		bare := course{"burst", "bare python", runtime.NumCPU(), r.Burst / burstParts, bareRun, nothing}
		l, err := r.closed(ctx, bare)
		if err != nil {
			return err
		}
		theirs.add(l)
		l, err = r.closed(ctx, course{"burst", "fumehood HTTP python", burstClients, r.Burst / burstParts, run, settle})
		if err != nil {
			return err
		}
		ours.add(l)
		if program == "" {
			continue
		}
		if l, err = r.floorLoop(ctx, program, r.Burst/burstParts); err != nil {
			return err
		}
		least.add(l)
	}
	t := newTable(r.w, fmt.Sprintf("Throughput, tear-down included, in %d alternating parts", burstParts),
		"row", "class", "clients", "ok", "runs/s", "/bare", "p50", "p99", "max")
	for _, x := range []struct {
		name    string
		class   class
		clients int
		l       *loop
	}{{"bare python", bare, runtime.NumCPU(), &theirs}, {"fumehood HTTP python", native, burstClients, &ours},
		{floorName, native, runtime.NumCPU(), &least}} {
		if len(x.l.samples) == 0 {
			continue
		}
		sum := summarize(x.l.samples)
		t.line(x.name, string(x.class), fmt.Sprint(x.clients), okOf(x.l), fmt.Sprintf("%.1f", x.l.perSecond()),
			times(x.l.perSecond()/theirs.perSecond()), ms(sum.p50), ms(sum.p99), ms(sum.max))
	}
	t.Flush()
	r.printFailures("fumehood HTTP python", ours.failures)
	r.printFailures("bare python", theirs.failures)
	r.printFailures(floorName, least.failures)
	r.figures.burst, r.figures.burstRatio = &ours, ours.perSecond()/theirs.perSecond()
	if r.figures.floorRatio = math.NaN(); len(least.samples) > 0 {
		r.figures.floorRatio = ours.perSecond() / least.perSecond()
	}
	return nil
}
