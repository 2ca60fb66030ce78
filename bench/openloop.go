package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// openLoop sends requests at random times regardless of answers, at a share of the closed loop's best rate. It measures
// a request from its due time, so that a stall affects all requests during it.
func (r *report) openLoop(ctx context.Context, s *liveserver.Server) error {
	if r.figures.capacity == 0 {
		fmt.Fprintln(r.w, "\nopen loop: skipped, since it needs the capacity that the closed loop measures")
		return nil
	}
	run := pythonRun(s)
	settle := func() error { return awaitIdle(s) }
	if _, err := r.closed(ctx, course{"warm-up", "python", 1, warmups, run, settle}); err != nil {
		return err
	}
	t := newTable(r.w, fmt.Sprintf("Open loop over HTTP, Python, for %v each; milliseconds", r.Open),
		"of capacity", "sent/s", "ok", "p50", "p90", "p99", "max")
	random := rand.New(rand.NewPCG(r.seed, r.seed))
	var failures []error
	for _, share := range []float64{0.5, 0.8} {
		rate := share * r.figures.capacity
		l, err := r.open(ctx, fmt.Sprintf("python at %.0f %%", 100*share), arrivals(random, rate, r.Open), run)
		if err != nil {
			return err
		}
		sum := summarize(l.samples)
		t.line(fmt.Sprintf("%.0f %%", 100*share), fmt.Sprintf("%.1f", rate), okOf(&l),
			ms(sum.p50), ms(sum.p90), ms(sum.p99), ms(sum.max))
		failures = append(failures, l.failures...)
		if err := awaitIdle(s); err != nil {
			return err
		}
	}
	t.Flush()
	r.printFailures("open loop", failures)
	return nil
}

// arrivals returns the times of a Poisson process with this rate.
func arrivals(random *rand.Rand, perSecond float64, length time.Duration) []time.Duration {
	var due []time.Duration
	at := time.Duration(0)
	for {
		at += time.Duration(random.ExpFloat64() / perSecond * float64(time.Second))
		if at >= length {
			return due
		}
		due = append(due, at)
	}
}

func (r *report) open(
	ctx context.Context, name string, due []time.Duration, run func(context.Context) error,
) (loop, error) {
	var (
		mu  sync.Mutex // guards l and err
		l   loop
		err error
		wg  sync.WaitGroup
	)
	began := time.Now()
	for _, at := range due {
		start := began.Add(at)
		select {
		case <-time.After(time.Until(start)):
		case <-ctx.Done():
			return l, ctx.Err()
		}
		wg.Go(func() {
			failure := run(ctx)
			took := time.Since(start)
			mu.Lock()
			defer mu.Unlock()
			l.record(took, failure)
			if e := r.raw.add(newSample("open loop", name, start, took, failure)); e != nil {
				err = e
			}
		})
	}
	wg.Wait()
	l.wall = time.Since(began)
	return l, err
}
