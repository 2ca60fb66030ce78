package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// runscPackage is gVisor's unmodified runsc at the version in go.mod, used as its manual describes.
const runscPackage = "gvisor.dev/gvisor/runsc"

// runscRows runs Python as the only process of a runsc container, with the host's root read-only.
func runscRows(ctx context.Context, dir string) ([]*row, error) {
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
	return []*row{{name: "runsc run python", class: userSpace, language: python, want: answer, slow: true,
		run: func(ctx context.Context) (string, time.Duration, error) {
			n++
			out, _, err := runCommand(ctx, []string{runsc, "--root=" + filepath.Join(dir, "state"),
				"--platform=systrap", "--network=none", "--ignore-cgroups",
				"run", "--bundle=" + dir, fmt.Sprintf("bench-%d-%d", os.Getpid(), n)})
			return out, 0, err
		}}}, nil
}
