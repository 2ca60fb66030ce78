package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// runscPackage is gVisor's unmodified runsc at the version in go.mod, used as its manual describes.
const runscPackage = "gvisor.dev/gvisor/runsc"

// runscRow runs Python as the only process of a runsc container, with the host's root read-only.
func runscRow(ctx context.Context, dir string) (*row, error) {
	runsc := filepath.Join(dir, "runsc")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", runsc, runscPackage)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w: %.500s", runscPackage, err, out)
	}
	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.0",
		"root":       map[string]any{"path": "/", "readonly": true},
		"process": map[string]any{
			"args": []string{pythonPath, "-c", pythonProgram}, "cwd": "/", "env": []string{"PATH=/usr/bin:/bin"},
		},
		"mounts": []map[string]any{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600); err != nil {
		return nil, err
	}
	n := 0
	return &row{name: "runsc run python", class: userSpace, language: python, want: answer, slow: true,
		run: func(ctx context.Context) (string, time.Duration, error) {
			n++
			out, _, err := runCommand(ctx, []string{runsc, "--root=" + filepath.Join(dir, "state"),
				"--platform=systrap", "--network=none", "--ignore-cgroups",
				"run", "--bundle=" + dir, fmt.Sprintf("bench-%d-%d", os.Getpid(), n)})
			return out, 0, err
		}}, nil
}

// gvisorRows compare fresh sandboxes of the gvisor backend with runsc itself.
func (r *report) gvisorRows(ctx context.Context, dir string) (rows []*row, servers []*liveserver.Server, err error) {
	peer, err := runscRow(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	rows = append(rows, peer)
	for _, kind := range []struct {
		suffix string
		args   []string
	}{{"", nil}, {", nothing warm", []string{"--warm", "0"}}} {
		s, err := r.startServer(ctx, append(kind.args, "--backend", "gvisor")...)
		if err != nil {
			return nil, servers, err
		}
		servers = append(servers, s)
		row := serverRow("fumehood HTTP gvisor python"+kind.suffix, python, pythonProgram, s)
		row.class, row.slow = userSpace, true
		rows = append(rows, row)
	}
	return rows, servers, nil
}
