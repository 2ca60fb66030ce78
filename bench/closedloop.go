package main

import (
	"context"
	"fmt"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

var clientCounts = []int{1, 2, 4, 8, 16, 32}

// pythonRun returns a function that runs Python in a fresh sandbox over HTTP and checks its output.
func pythonRun(s *liveserver.Server) func(context.Context) error {
	row := serverRow("fumehood HTTP python", python, pythonProgram, s)
	return func(ctx context.Context) error {
		stdout, _, err := row.run(ctx)
		if err == nil {
			err = row.check(stdout)
		}
		return err
	}
}

// closedLoop measures Python with increasing numbers of clients against one server.
func (r *report) closedLoop(ctx context.Context, s *liveserver.Server) error {
	run := pythonRun(s)
	settle := func() error { return awaitIdle(s) }
	if _, err := r.closed(ctx, course{"warm-up", "python", 1, warmups, run, settle}); err != nil {
		return err
	}
	t := newTable(r.w, "Closed loop over HTTP, Python; tear-down included; milliseconds",
		"clients", "ok", "runs/s", "p50", "p90", "p99", "max", "cpu ms/run", "server MiB")
	var failures []error
	for _, clients := range clientCounts {
		before, err := liveserver.CPU(s.PID())
		if err != nil {
			return err
		}
		name := fmt.Sprintf("python, %d clients", clients)
		l, err := r.closed(ctx, course{"closed loop", name, clients, max(r.Loop, clients), run, settle})
		if err != nil {
			return err
		}
		after, err := liveserver.CPU(s.PID())
		if err != nil {
			return err
		}
		m, err := liveserver.ReadMemory(s.PID())
		if err != nil {
			return err
		}
		r.figures.capacity = max(r.figures.capacity, l.perSecond())
		sum := summarize(l.samples)
		t.line(fmt.Sprint(clients), okOf(&l), fmt.Sprintf("%.1f", l.perSecond()),
			ms(sum.p50), ms(sum.p90), ms(sum.p99), ms(sum.max),
			fmt.Sprintf("%.2f", milliseconds(after-before)/float64(max(1, sum.n))), mib(m.RSS))
		failures = append(failures, l.failures...)
	}
	t.Flush()
	r.printFailures("closed loop", failures)
	return nil
}

func okOf(l *loop) string {
	return fmt.Sprintf("%d/%d", len(l.samples), len(l.samples)+len(l.failures))
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f", toMiB(bytes)) }

func toMiB(bytes int64) float64 { return float64(bytes) / (1 << 20) }
