package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"time"
)

// commandRow is a row whose run is one process. wait4(2) reports the cost of the process and its awaited children.
func commandRow(name string, c class, language string, argv ...string) *row {
	return &row{name: name, class: c, language: language, want: answer,
		run: func(ctx context.Context) (string, time.Duration, error) { return runCommand(ctx, argv) }}
}

func runCommand(ctx context.Context, argv []string) (string, time.Duration, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	var cpu time.Duration
	if cmd.ProcessState != nil {
		cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err != nil && stderr.Len() > 0 {
		err = errors.New(err.Error() + ": " + string(bytes.TrimSpace(stderr.Bytes())))
	}
	return string(stdout), cpu, err
}

// bubblewrapRows run under bubblewrap with all its namespaces and a root like that of the native backend.
func bubblewrapRows() ([]*row, error) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, errors.New("bubblewrap is not installed")
	}
	argv := []string{bwrap, "--unshare-all", "--die-with-parent", "--new-session",
		"--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64"} {
		target, err := os.Readlink(dir)
		switch {
		case err == nil:
			argv = append(argv, "--symlink", target, dir)
		case exists(dir):
			argv = append(argv, "--ro-bind", dir, dir)
		}
	}
	argv = append(argv, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace",
		"--chdir", "/workspace", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin")
	with := func(more ...string) []string { return append(argv[:len(argv):len(argv)], more...) }
	rows := []*row{
		commandRow("bubblewrap python", namespaces, python, with(pythonPath, "-c", pythonProgram)...),
		commandRow("bubblewrap bash", namespaces, bash, with(bashPath, "-c", bashProgram)...),
	}
	orphans, err := newOrphanage()
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		run := r.run
		r.run = func(ctx context.Context) (string, time.Duration, error) {
			orphans.note()
			return run(ctx)
		}
		r.after = orphans.reap
	}
	return rows, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

const dockerTimeout = 10 * time.Second

// dockerRows run in fresh containers, if an engine answers and has the image. They pull nothing. The engine's CPU time
// is unknown, so they have no CPU figure.
func dockerRows(ctx context.Context, image string) ([]*row, error) {
	docker, err := exec.LookPath("docker")
	if err != nil {
		return nil, errors.New("Docker is not installed")
	}
	ctx, cancel := context.WithTimeout(ctx, dockerTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, docker, "image", "inspect", image).CombinedOutput(); err != nil {
		lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
		return nil, errors.New("Docker: " + string(lines[len(lines)-1]))
	}
	argv := []string{docker, "run", "--rm", "--network", "none", image}
	with := func(more ...string) []string { return append(argv[:len(argv):len(argv)], more...) }
	rows := []*row{
		commandRow("docker python", container, python, with("python3", "-c", pythonProgram)...),
		commandRow("docker bash", container, bash, with("bash", "-c", bashProgram)...),
	}
	for _, r := range rows {
		run := r.run
		r.slow = true
		r.run = func(ctx context.Context) (string, time.Duration, error) {
			out, _, err := run(ctx)
			return out, 0, err
		}
	}
	return rows, nil
}

// commandLineRows are the command line program, with a new sandbox for each run, and without one: the start of the
// program is part of each run.
func commandLineRows(ctx context.Context, binary string) ([]*row, error) {
	run := commandRow("fumehood run -c", native, python, binary, "run", "-c", "print(1)")
	run.want = "1\n"
	start := commandRow("fumehood version", bare, python, binary, "version")
	var err error
	start.want, _, err = runCommand(ctx, []string{binary, "version"})
	return []*row{run, start}, err
}
