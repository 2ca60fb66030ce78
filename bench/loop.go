package main

import (
	"context"
	"sync"
	"time"
)

// loop is the result of some clients, each with one run at a time.
type loop struct {
	samples  []time.Duration
	failures []error
	wall     time.Duration // from the first start until the last tear-down
}

// record keeps the result of one run.
func (l *loop) record(took time.Duration, err error) {
	if err != nil {
		l.failures = append(l.failures, err)
	} else {
		l.samples = append(l.samples, took)
	}
}

func (l *loop) perSecond() float64 {
	if l.wall <= 0 {
		return 0
	}
	return float64(len(l.samples)) / l.wall.Seconds()
}

func (l *loop) add(more loop) {
	l.samples = append(l.samples, more.samples...)
	l.failures = append(l.failures, more.failures...)
	l.wall += more.wall
}

// course is a number of runs by clients that each start the next run after the last answer.
type course struct {
	section, name string
	clients, n    int
	run           func(context.Context) error
	settle        func() error // waits for tear-down after the last answer
}

// closed goes through a course.
func (r *report) closed(ctx context.Context, c course) (loop, error) {
	var (
		mu  sync.Mutex // guards l, next and err
		l   loop
		err error
		wg  sync.WaitGroup
	)
	next := 0
	began := time.Now()
	for range c.clients {
		wg.Go(func() {
			for {
				mu.Lock()
				mine := next
				next++
				mu.Unlock()
				if mine >= c.n || ctx.Err() != nil {
					return
				}
				start := time.Now()
				failure := c.run(ctx)
				took := time.Since(start)
				mu.Lock()
				l.record(took, failure)
				if e := r.raw.add(newSample(c.section, c.name, start, took, failure)); e != nil {
					err = e
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err == nil {
		err = c.settle()
	}
	l.wall = time.Since(began)
	if err == nil {
		err = ctx.Err()
	}
	return l, err
}
