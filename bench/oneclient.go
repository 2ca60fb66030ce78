package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// oneClient measures every row with one run at a time, all rows interleaved.
func (r *report) oneClient(ctx context.Context) (err error) {
	rows, stop, err := r.makeRows(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	counts := make([]int, len(rows))
	for i, row := range rows {
		counts[i] = r.Runs
		if row.slow {
			counts[i] = r.SlowRuns
		}
		for range warmups {
			if _, _, err := row.run(ctx); err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
		}
		if row.total == nil {
			continue
		}
		before, err := row.total()
		if err != nil {
			return err
		}
		row.cpu = -before
	}
	for _, i := range liveserver.Interleave(counts, r.seed) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.raw.add(rows[i].measure(ctx)); err != nil {
			return err
		}
	}
	for _, row := range rows {
		if row.total == nil {
			continue
		}
		after, err := row.total()
		if err != nil {
			return err
		}
		row.cpu += after
	}
	r.printRows(rows)
	r.figures.rows = map[string]summary{}
	for _, row := range rows {
		r.figures.rows[row.name] = summarize(row.samples)
	}
	return nil
}

// servedRow is a row of fresh sandboxes from its own server.
type servedRow struct {
	name, language string
	class          class
	args           []string // of the server
}

// makeRows returns the rows that this host can run and prints the others. stop ends their servers.
func (r *report) makeRows(ctx context.Context) (rows []*row, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "fumehood-bench-")
	if err != nil {
		return nil, nil, err
	}
	var servers []*liveserver.Server
	endFloor := func() error { return nil }
	stop = func() error {
		errs := []error{endFloor()}
		for _, s := range servers {
			errs = append(errs, s.Stop())
		}
		return errors.Join(append(errs, os.RemoveAll(dir))...)
	}
	rows, err = commandLineRows(ctx, r.binary)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	rows = append(rows, commandRow("bare python", bare, python, pythonPath, "-c", pythonProgram),
		commandRow("bare bash", bare, bash, bashPath, "-c", bashProgram))
	served := []servedRow{
		{"fumehood HTTP python", python, native, nil},
		{"fumehood HTTP python, nothing warm", python, native, []string{"--warm", "0"}},
		{"fumehood HTTP bash", bash, native, nil},
		{"fumehood HTTP bash, nothing warm", bash, native, []string{"--warm", "0"}},
	}
	for _, peers := range []struct {
		rows func() ([]*row, error)
		ours []servedRow // compared with them
	}{
		{bubblewrapRows, nil},
		{func() ([]*row, error) { return dockerRows(ctx, r.image) }, []servedRow{
			{dockerHTTP, python, container,
				[]string{"--warm", "0", "--backend", "docker", "--container-image", r.image}},
		}},
		{func() ([]*row, error) { return runscRows(ctx, dir) }, []servedRow{
			{gvisorHTTP, python, userSpace, []string{"--backend", "gvisor"}},
			{gvisorHTTP + ", nothing warm", python, userSpace, []string{"--warm", "0", "--backend", "gvisor"}},
		}},
	} {
		more, err := peers.rows()
		if err != nil {
			fmt.Fprintf(r.w, "skipped: %v\n", err)
			continue
		}
		rows, served = append(rows, more...), append(served, peers.ours...)
	}
	if floor, end, err := floorRow(dir); err != nil {
		fmt.Fprintf(r.w, "skipped: %v\n", err)
	} else {
		rows, endFloor = append(rows, floor), end
	}
	rows = slices.DeleteFunc(rows, func(row *row) bool { return !r.rows.MatchString(row.name) })
	for _, o := range served {
		if !r.rows.MatchString(o.name) {
			continue
		}
		s, err := r.startServer(ctx, o.args...)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		servers = append(servers, s)
		row := serverRow(o.name, o.language, map[string]string{python: pythonProgram, bash: bashProgram}[o.language], s)
		row.class, row.slow = o.class, o.class != native
		rows = append(rows, row)
	}
	return rows, stop, nil
}
