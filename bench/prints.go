package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// printsProgram produces output in small pieces: on native, Python makes four writes of each print.
const printsProgram = "for i in range(20_000): print('line', i)\n"

// prints measures the run time of a program with output in small pieces.
func (r *report) prints(ctx context.Context) error {
	t := newTable(r.w, "20,000 prints of Python; milliseconds",
		"backend", "n", "p50", "p90", "max")
	p50 := map[string]time.Duration{}
	for _, backend := range []string{"native", "gvisor"} {
		samples, err := r.printsOn(ctx, backend)
		if err != nil {
			return fmt.Errorf("%s: %w", backend, err)
		}
		s := summarize(samples)
		p50[backend] = s.p50
		t.line(backend, fmt.Sprint(s.n), ms(s.p50), ms(s.p90), ms(s.max))
	}
	t.Flush()
	r.figures.prints = ratio(p50["gvisor"], p50["native"])
	return nil
}

func (r *report) printsOn(ctx context.Context, backend string) (samples []time.Duration, err error) {
	s, err := r.startServer(ctx, "--backend", backend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	body := (&liveserver.Request{Language: python, Code: printsProgram}).Encode()
	for range r.Prints {
		began := time.Now()
		a, err := s.Post(ctx, body)
		if err != nil {
			return nil, err
		}
		if lines := strings.Count(a.Stdout, "\n"); a.Status != "succeeded" || lines != 20_000 {
			return nil, fmt.Errorf("%s with %d lines: %s", a.Status, lines, a.Hint)
		}
		took := fromMillis(a.Timings.Run)
		samples = append(samples, took)
		if err := r.raw.add(newSample("prints", backend, began, took, nil)); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

func (f *figures) printsTarget() target {
	x := atMost("gVisor: 20,000 prints / native", math.NaN(), 9, "x")
	if f.prints > 0 {
		x.measured = f.prints
	}
	return x
}
