package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// e2bFigures are those of E2B's Python SDK, p50; zero means not measured.
type e2bFigures struct {
	run, create, echo time.Duration
}

// e2bClient measures E2B's published SDK in the virtual environment that scripts/e2b.sh makes.
func (r *report) e2bClient(ctx context.Context, s *liveserver.Server) error {
	output, err := exec.CommandContext(ctx, "bash", "scripts/e2b.sh", "environment").Output()
	if err != nil {
		return fmt.Errorf("make an environment for E2B's SDK: %w", err)
	}
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	python := filepath.Join(string(lines[len(lines)-1]), "python")
	samples, err := r.inPython(ctx, "e2b client", python, "bench/e2bsdk.py", s.URL)
	if err != nil {
		return err
	}
	f := &r.figures.e2b
	f.run, f.create = summarize(samples["run"]).p50, summarize(samples["create"]).p50
	f.echo = summarize(samples["echo"]).p50
	t := newTable(r.w, "E2B's Python SDK, p50 ms", "figure", "measured")
	t.line(`run_code("1")`, ms(f.run))
	t.line("Sandbox.create()", ms(f.create))
	t.line("from a key to its echo in a terminal", ms(f.echo))
	t.Flush()
	return nil
}

func (f *e2bFigures) targets() []target {
	if f.run == 0 {
		return nil
	}
	return []target{
		atMost("run_code by E2B's SDK", milliseconds(f.run), 5, " ms"),
		atMost("Sandbox.create by E2B's SDK", milliseconds(f.create), 40, " ms"),
		atMost("a key's echo by E2B's SDK", milliseconds(f.echo), 5, " ms"),
	}
}
