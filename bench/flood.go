package main

import (
	"context"
	"fmt"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

const (
	floodBytes   = 100_000_000
	floodCapKiB  = 1024
	floodProgram = "import sys\nfor _ in range(1000): sys.stdout.write('x' * 100_000)\n"
	fullProgram  = "import sys\nsys.stdout.write('x' * 1024 * 1024)\n" // an equally large answer without dropped bytes

	// flatBytes bounds the growth of a server beyond its peak for equally large answers without dropped output: four
	// times the cap (kept, joined, encoded and sent), and as much again awaiting collection.
	flatBytes = 8 * floodCapKiB << 10
)

// flood measures the server's memory while programs write 100 MB of stdout under a cap of 1 MiB.
func (r *report) flood(ctx context.Context, s *liveserver.Server) error {
	limits := &liveserver.Limits{OutputKiB: floodCapKiB}
	full := (&liveserver.Request{Language: python, Code: fullProgram, Limits: limits}).Encode()
	for range warmups {
		a, err := s.Post(ctx, full)
		if err != nil {
			return err
		}
		if a.Status != "succeeded" || len(a.Stdout) != floodCapKiB<<10 {
			return fmt.Errorf("an answer of the whole cap: %s with %d bytes", a.Status, len(a.Stdout))
		}
	}
	before, err := liveserver.ReadMemory(s.PID())
	if err != nil {
		return err
	}
	if err := liveserver.ResetPeak(s.PID()); err != nil {
		return err
	}
	body := (&liveserver.Request{Language: python, Code: floodProgram, Limits: limits}).Encode()
	title := fmt.Sprintf("%d MB of stdout, cap %d KiB: server memory, MiB", floodBytes/1_000_000, floodCapKiB)
	t := newTable(r.w, title,
		"run", "status", "stdout kept", "before", "peak", "after")
	for i := range r.Floods {
		a, err := s.Post(ctx, body)
		if err != nil {
			return err
		}
		if err := awaitIdle(s); err != nil {
			return err
		}
		m, err := liveserver.ReadMemory(s.PID())
		if err != nil {
			return err
		}
		t.line(fmt.Sprint(i+1), a.Status, mib(int64(len(a.Stdout))), mib(before.Peak), mib(m.Peak), mib(m.RSS))
		r.figures.floodGrowth = max(r.figures.floodGrowth, m.Peak-before.Peak)
	}
	t.Flush()
	return nil
}
