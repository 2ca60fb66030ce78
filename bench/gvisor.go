package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/test/liveserver"
)

// runscFile is what `make runsc` builds: the peer is gVisor as it comes, called as its manual says.
var runscFile = "internal/libexec/bin/glovebox-runsc-linux-" + runtime.GOARCH

// runscRow runs Python as the one process of a container of runsc's, with the host's root shown read-only. Each run has a name of its own.
func runscRow(dir string) (*row, error) {
	runsc, err := filepath.Abs(runscFile)
	if err == nil {
		_, err = os.Stat(runsc)
	}
	if err != nil {
		return nil, errors.New("runsc is not built: make runsc")
	}
	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.0",
		"process":    map[string]any{"args": []string{pythonPath, "-c", pythonProgram}, "cwd": "/", "env": []string{"PATH=/usr/bin:/bin"}},
		"root":       map[string]any{"path": "/", "readonly": true},
		"mounts":     []map[string]any{{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}},
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
			out, _, err := runCommand(ctx, []string{runsc, "--root=" + filepath.Join(dir, "state"), "--platform=systrap", "--network=none", "--ignore-cgroups",
				"run", "--bundle=" + dir, "bench-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(n)})
			return out, 0, err
		}}, nil
}

// gvisorRows are fresh sandboxes of the gvisor backend beside runsc itself.
func (r *report) gvisorRows(ctx context.Context, dir string) (rows []*row, servers []*liveserver.Server, err error) {
	peer, err := runscRow(dir)
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
		row := serverRow("glovebox HTTP gvisor python"+kind.suffix, python, pythonProgram, s)
		row.class, row.slow = userSpace, true
		rows = append(rows, row)
	}
	return rows, servers, nil
}
