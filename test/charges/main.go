// Command charges compares the CPU time that operations of a server need with the work that the server charges their
// client for. A client waits once it has more than its share of work. An operation that is charged far too little lets
// one client delay all others.
//
// It exits with 1 if an operation outside of runs needs more than -most times its charge, relative to the median of all
// operations. With -held it measures instead the memory that the server holds for clients that do not read, do not end
// their request, or leave. Run `make build`, then `go run ./test/charges`, as root and on a quiet host.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

type config struct {
	binary, only string
	each         time.Duration
	most         float64
	held         bool
}

func main() {
	var c config
	flag.StringVar(&c.binary, "fumehood", liveserver.DefaultBinary, "the program to test")
	flag.StringVar(&c.only, "only", "", "only operations whose name contains this")
	flag.DurationVar(&c.each, "t", 2*time.Second, "how long to repeat each operation")
	flag.Float64Var(&c.most, "most", 5, "CPU time by charge, relative to the median, that fails")
	flag.BoolVar(&c.held, "held", false, "measure memory instead of CPU time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	test := measureAll
	if c.held {
		test = heldAll
	}
	if err := test(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "charges:", err)
		os.Exit(1)
	}
}

// measured is the cost of one call of an operation, in seconds.
type measured struct {
	operation
	cpu, charged, wall float64
}

func (m *measured) ratio() float64 { return m.cpu / m.charged }

// start starts a server, which the caller stops, and returns the operations to test.
func start(ctx context.Context, c config, o liveserver.Options) (client *caller, list []operation, err error) {
	o.Binary = c.binary
	server, err := liveserver.Start(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	client = &caller{server: server}
	if list, err = client.prepare(ctx); err != nil {
		return nil, nil, errors.Join(err, server.Stop())
	}
	return client, slices.DeleteFunc(list, func(o operation) bool { return !strings.Contains(o.name(), c.only) }), nil
}

func measureAll(ctx context.Context, c config, out io.Writer) (err error) {
	client, list, err := start(ctx, c, liveserver.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.server.Stop()) }()
	var all []measured
	for _, o := range list {
		m, err := client.measure(ctx, o, c.each)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	return report(out, all, c.most)
}

// report prints all operations, the most expensive for its charge first, and fails if one is charged too little.
func report(out io.Writer, all []measured, most float64) error {
	if len(all) == 0 {
		return errors.New("no operation has that name")
	}
	slices.SortFunc(all, func(a, b measured) int { return cmp.Compare(b.ratio(), a.ratio()) })
	bound := most * all[len(all)/2].ratio()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "operation\tCPU µs\tcharged µs\tratio\twall µs\t")
	var bad []string
	for i := range all {
		m, note := &all[i], ""
		switch {
		case m.runs:
			note = "a run: bounded by slots"
		case m.ratio() > bound:
			note = "CHARGED TOO LITTLE"
			bad = append(bad, m.name())
		}
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.1f\t%.0f\t%s\n", m.name(), m.cpu*1e6, m.charged*1e6, m.ratio(),
			m.wall*1e6, note)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(bad) > 0 {
		return fmt.Errorf("more than %.1f times the charge: %s", bound, strings.Join(bad, ", "))
	}
	return nil
}

// fewest is the least number of calls of an operation.
const fewest = 10

// measure repeats an operation for some time.
func (c *caller) measure(ctx context.Context, o operation, each time.Duration) (m measured, err error) {
	if _, err = c.call(ctx, &o); err != nil {
		return m, err
	}
	before, err := c.counters(ctx)
	if err != nil {
		return m, err
	}
	began, calls := time.Now(), 0
	for time.Since(began) < each || calls < fewest {
		if _, err := c.call(ctx, &o); err != nil {
			return m, err
		}
		calls++
	}
	wall := time.Since(began)
	after, err := c.counters(ctx)
	if err != nil {
		return m, err
	}
	n := float64(calls)
	return measured{operation: o, cpu: (after.cpu - before.cpu) / n, charged: (after.charged - before.charged) / n,
		wall: wall.Seconds() / n}, nil
}

// counters are those of the server's process and its ended children, in seconds.
type counters struct{ cpu, charged float64 }

func (c *caller) counters(ctx context.Context) (counters, error) {
	cpu, err := liveserver.CPU(c.server.PID())
	charged, known := c.server.Metric(ctx, "fumehood_http_work_seconds_total")
	if !known {
		err = errors.Join(err, errors.New("/metrics lacks a counter"))
	}
	return counters{cpu.Seconds(), charged}, err
}
