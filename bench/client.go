package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// clientFigures are those of the Python client; zero means not measured.
type clientFigures struct {
	run, request time.Duration // p50 of Sandbox.run("1"), and of the request without the client
	call         time.Duration // p50 of a call of a tool, as the code in the sandbox measures it
	imported     time.Duration // shortest first import: other load only adds
}

// pythonClient measures the wheel of the Python client in the virtual environment that scripts/python.sh makes.
func (r *report) pythonClient(ctx context.Context, s *liveserver.Server) error {
	prepare := exec.CommandContext(ctx, "bash", "scripts/python.sh", "client")
	output, err := prepare.Output()
	if err != nil {
		return fmt.Errorf("make an environment for the Python client: %w", err)
	}
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	python := filepath.Join(string(lines[len(lines)-1]), "python")
	samples, err := r.inPython(ctx, "python client", python, "bench/client.py", s.URL)
	if err != nil {
		return err
	}
	f := &r.figures.client
	f.run, f.request = summarize(samples["run"]).p50, summarize(samples["request"]).p50
	f.call = summarize(samples["call"]).p50
	f.imported = slices.Min(samples["import"])
	t := newTable(r.w, "The Python client", "figure", "measured")
	t.line(`Sandbox.run("1"), p50 ms`, ms(f.run))
	t.line("the same request without the client, p50 ms", ms(f.request))
	t.line("a call of a tool back and forth, p50 ms", ms(f.call))
	t.line("first import, shortest, ms", ms(f.imported))
	t.Flush()
	return nil
}

// inPython runs a program that takes the URL of a server and a number of runs, and prints rows of milliseconds.
func (r *report) inPython(ctx context.Context, name, python, program, url string) (map[string][]time.Duration, error) {
	output, err := exec.CommandContext(ctx, python, program, url, strconv.Itoa(r.Runs)).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	var rows map[string][]float64
	if err := json.Unmarshal(output, &rows); err != nil {
		return nil, err
	}
	samples := map[string][]time.Duration{}
	for row, all := range rows {
		for _, took := range all {
			sample := time.Duration(took * float64(time.Millisecond))
			samples[row] = append(samples[row], sample)
			if err := r.raw.add(newSample(name, row, time.Now(), sample, nil)); err != nil {
				return nil, err
			}
		}
	}
	return samples, nil
}

func (f *clientFigures) targets() []target {
	if f.run == 0 {
		return nil
	}
	return []target{
		atMost("a run by the Python client / the plain request", ratio(f.run, f.request), 1.5, "x"),
		atMost("a call of a tool back and forth", milliseconds(f.call), 3, " ms"),
		atMost("first import of the Python client", milliseconds(f.imported), 150, " ms"),
	}
}
