package main

import (
	"context"
	"fmt"
	"time"
)

// class is how far a row keeps the code from the host. Rows of different classes do not promise the same.
type class string

const (
	bare       class = "bare"                      // nothing between
	namespaces class = "shared kernel, namespaces" // no limits, no system call filter
	native     class = "shared kernel, native"     // all walls and limits of the native backend
	container  class = "container"
	userSpace  class = "kernel in user space"
)

const (
	python = "python"
	bash   = "bash"

	pythonProgram = "print(6*7)"
	bashProgram   = "echo $((6*7))"
	answer        = "42\n"

	pythonPath = "/usr/bin/python3" // a python3 on PATH may be a slow shim
	bashPath   = "/bin/bash"
)

// row is one way to run one program, measured from the call to the last byte of its checked output.
type row struct {
	name     string
	class    class
	language string
	want     string
	slow     bool // fewer runs

	// run makes one run. cpu is what it cost, where the run itself can tell.
	run func(ctx context.Context) (stdout string, cpu time.Duration, err error)

	// after is called off the clock after each run, and says what the run cost beyond what run said. It may be nil.
	after func() (time.Duration, error)

	// total is the CPU time spent so far by all runs of this row, for rows whose single runs cannot tell. It waits for teardown.
	total func() (time.Duration, error)

	samples  []time.Duration
	cpu      time.Duration
	failures []error
}

func (r *row) check(stdout string) error {
	if stdout != r.want {
		return fmt.Errorf("stdout was %q, not %q", stdout, r.want)
	}
	return nil
}

// measure makes one run and keeps its figures. A run that fails counts as a failure, not as a sample.
func (r *row) measure(ctx context.Context) sample {
	began := time.Now()
	stdout, cpu, err := r.run(ctx)
	took := time.Since(began)
	if err == nil {
		err = r.check(stdout)
	}
	if err == nil && r.after != nil {
		var more time.Duration
		more, err = r.after()
		cpu += more
	}
	if err != nil {
		r.failures = append(r.failures, err)
	} else {
		r.samples = append(r.samples, took)
		r.cpu += cpu
	}
	return newSample("one client", r.name, began, took, err)
}

// cpuPerRun is 0 where nobody can tell.
func (r *row) cpuPerRun() time.Duration {
	if n := len(r.samples) + len(r.failures); n > 0 {
		return r.cpu / time.Duration(n)
	}
	return 0
}
