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
	for _, i := range interleave(counts, r.seed) {
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
	r.figures.oneClient(rows)
	return nil
}

// makeRows returns the rows that this host can run and prints the others. stop ends their servers.
func (r *report) makeRows(ctx context.Context) (rows []*row, stop func() error, err error) {
	var servers []*liveserver.Server
	stop = func() error {
		var errs []error
		for _, s := range servers {
			errs = append(errs, s.Stop())
		}
		return errors.Join(errs...)
	}
	rows = []*row{
		commandRow("bare python", bare, python, pythonPath, "-c", pythonProgram),
		commandRow("bare bash", bare, bash, bashPath, "-c", bashProgram),
	}
	docker := func() ([]*row, error) { return dockerRows(ctx, r.image) }
	for _, peers := range []func() ([]*row, error){bubblewrapRows, docker} {
		more, err := peers()
		if err != nil {
			fmt.Fprintf(r.w, "skipped: %v\n", err)
		}
		rows = append(rows, more...)
	}
	if slices.ContainsFunc(rows, func(r *row) bool { return r.class == container }) {
		s, err := r.startServer(ctx, "--warm", "0", "--backend", "docker", "--container-image", r.image)
		if err != nil {
			return nil, nil, err
		}
		servers = append(servers, s)
		ours := serverRow(dockerHTTP, python, pythonProgram, s)
		ours.class, ours.slow = container, true
		rows = append(rows, ours)
	}
	for _, program := range []struct{ language, code string }{{python, pythonProgram}, {bash, bashProgram}} {
		for _, kind := range []struct {
			suffix string
			args   []string
		}{{"", nil}, {", nothing warm", []string{"--warm", "0"}}} {
			s, err := r.startServer(ctx, kind.args...)
			if err != nil {
				return nil, nil, errors.Join(err, stop())
			}
			servers = append(servers, s)
			name := "fumehood HTTP " + program.language + kind.suffix
			rows = append(rows, serverRow(name, program.language, program.code, s))
		}
	}
	rows = append(rows, commandLineRow(r.binary))
	dir, err := os.MkdirTemp("", "fumehood-bench-")
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	removed := stop
	stop = func() error { return errors.Join(removed(), os.RemoveAll(dir)) }
	more, started, err := r.gvisorRows(ctx, dir)
	servers = append(servers, started...)
	if err != nil {
		fmt.Fprintf(r.w, "skipped: %v\n", err)
	}
	rows = append(rows, more...)
	var chosen []*row
	for _, row := range rows {
		if r.rows.MatchString(row.name) {
			chosen = append(chosen, row)
		}
	}
	return chosen, stop, nil
}
