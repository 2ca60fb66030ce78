// Command soak runs many benign programs, such as people and models write, concurrently on one server. It compares
// every answer with the outcome of the same program on this host without a sandbox, and finally looks for leaks.
//
// It exits with 1 if a run differed or the server leaked. Run `make build`, then `go run ./test/soak`, preferably as
// root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

type config struct {
	runs, clients  int
	seed           uint64
	only           string
	binary, runDir string
}

func main() {
	var c config
	flag.IntVar(&c.runs, "n", 10_000, "runs")
	flag.IntVar(&c.clients, "c", 32, "concurrent runs")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of the choice of programs")
	flag.StringVar(&c.only, "only", "", "only programs whose file name contains this")
	flag.StringVar(&c.binary, "fumehood", liveserver.DefaultBinary, "the program to test")
	flag.StringVar(&c.runDir, "run-dir", liveserver.DefaultRunDir, "the run folder of that program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := soak(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func soak(ctx context.Context, c config, w io.Writer) (err error) {
	cases, err := makeCases(ctx, c.only)
	if err != nil {
		return err
	}
	// Test frameworks open terminals.
	s, err := liveserver.Start(ctx, liveserver.Options{Binary: c.binary, Args: []string{"--terminals"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	fmt.Fprintf(w, "%d programs, %d runs, %d concurrent, seed %d\n", len(cases), c.runs, c.clients, c.seed)

	// After each program has run at full concurrency, everything that is created on first use exists.
	warm := &tally{}
	warm.drive(ctx, s, cases, orderOf(len(cases), max(2*c.clients, len(cases)), c.seed+1), c.clients)
	before, err := settled(ctx, s, c.runDir)
	if err != nil {
		return err
	}
	t := &tally{progress: w}
	began := time.Now()
	t.drive(ctx, s, cases, orderOf(len(cases), c.runs, c.seed), c.clients)
	took := time.Since(began)
	after, err := settled(ctx, s, c.runDir)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.print(w, cases, took)
	fmt.Fprintf(w, "server before and after: descriptors %d, %d; goroutines %d, %d; resident MiB %d, %d\n",
		before.fds, after.fds, before.goroutines, after.goroutines, before.rss>>20, after.rss>>20)
	found := leaks(before, after)
	for _, l := range found {
		fmt.Fprintln(w, "LEAK:", l)
	}
	if failed := len(warm.failures) + len(t.failures); failed > 0 || len(found) > 0 {
		warm.printFailures(w)
		return fmt.Errorf("%d runs failed, %d leaks", failed, len(found))
	}
	fmt.Fprintln(w, "no run failed, no leaks")
	return nil
}

// testCase is one program with one argument.
type testCase struct {
	name string
	body []byte
	want outcome
}

// makeCases runs all programs without a sandbox. A program that fails there stops the soak: install what it needs, or
// exclude it with -only.
func makeCases(ctx context.Context, only string) ([]testCase, error) {
	list, err := programs()
	if err != nil {
		return nil, err
	}
	var cases []testCase
	for i := range list {
		p := &list[i]
		if !strings.Contains(p.name, only) {
			continue
		}
		for v := range variants {
			want, err := p.control(ctx, v)
			if err != nil {
				return nil, fmt.Errorf("%s fails without a sandbox too: %w", p.name, err)
			}
			cases = append(cases, testCase{name: p.name, body: p.request(v).Encode(), want: want})
		}
	}
	if len(cases) == 0 {
		return nil, errors.New("-only matches no program")
	}
	return cases, nil
}

// orderOf returns a random order of runs in which each case has the same number of runs.
func orderOf(cases, runs int, seed uint64) []int {
	counts := make([]int, cases)
	for i := range runs {
		counts[i%cases]++
	}
	return liveserver.Interleave(counts, seed)
}

// failure is one run that differed from the run without a sandbox.
type failure struct {
	name string
	run  int
	err  error
}

// tally collects the results of some runs.
type tally struct {
	progress io.Writer

	mu       sync.Mutex // guards all below
	next     int
	took     map[string][]time.Duration
	failures []failure
	reported time.Time
}

const progressEvery = 10 * time.Second

// drive makes the runs in this order with a number of clients.
func (t *tally) drive(ctx context.Context, s *liveserver.Server, cases []testCase, order []int, clients int) {
	t.took, t.reported = map[string][]time.Duration{}, time.Now()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := t.take(len(order)); i < len(order) && ctx.Err() == nil; i = t.take(len(order)) {
				c := &cases[order[i]]
				began := time.Now()
				a, err := s.Post(ctx, c.body)
				if err == nil {
					err = c.want.check(a)
				}
				t.done(c.name, i, time.Since(began), err)
			}
		})
	}
	wg.Wait()
}

func (t *tally) take(of int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.next
	t.next++
	if t.progress != nil && time.Since(t.reported) > progressEvery {
		t.reported = time.Now()
		fmt.Fprintf(t.progress, "%d of %d, %d failed\n", i, of, len(t.failures))
	}
	return i
}

func (t *tally) done(name string, run int, took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took[name] = append(t.took[name], took)
	if err != nil {
		t.failures = append(t.failures, failure{name, run, err})
	}
}

func (t *tally) print(w io.Writer, cases []testCase, took time.Duration) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "program\truns\tfailed\tp50 ms\tmax ms")
	done := map[string]bool{}
	runs := 0
	for _, c := range cases {
		if done[c.name] {
			continue
		}
		done[c.name] = true
		all := t.took[c.name]
		runs += len(all)
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		failed := 0
		for _, f := range t.failures {
			if f.name == c.name {
				failed++
			}
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", c.name, len(all), failed,
			all[len(all)/2].Milliseconds(), all[len(all)-1].Milliseconds())
	}
	table.Flush()
	fmt.Fprintf(w, "%d runs in %v, %.1f per second\n", runs, took.Round(time.Second), float64(runs)/took.Seconds())
	t.printFailures(w)
}

const shownFailures = 3 // of each program

func (t *tally) printFailures(w io.Writer) {
	shown := map[string]int{}
	for _, f := range t.failures {
		if shown[f.name]++; shown[f.name] <= shownFailures {
			fmt.Fprintf(w, "FAILED %s, run %d: %v\n", f.name, f.run, f.err)
		}
	}
}
