package main

import (
	"context"
	"fmt"
	"time"
)

// class is how strongly a row isolates code. Rows of different classes promise different things.
type class string

const (
	bare       class = "bare"                      // no isolation
	namespaces class = "shared kernel, namespaces" // no limits, no system call filter
	native     class = "shared kernel, native"     // all isolation and limits of the native backend
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

	// run makes one run. cpu is its cost, if the run can measure it.
	run func(ctx context.Context) (stdout string, cpu time.Duration, err error)

	// after is called after each run, outside its time, and returns further CPU cost. May be nil.
	after func() (time.Duration, error)

	// total is the CPU time of all runs of this row so far, for rows that cannot measure single runs. It waits for
	// tear-down.
	total func() (time.Duration, error)

	loop
	cpu time.Duration
}

func (r *row) check(stdout string) error {
	if stdout != r.want {
		return fmt.Errorf("stdout was %q, not %q", stdout, r.want)
	}
	return nil
}

// measure makes one run and keeps its figures. A failed run counts as a failure, not as a sample.
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
	r.record(took, err)
	if err == nil {
		r.cpu += cpu
	}
	return newSample("one client", r.name, began, took, err)
}

// cpuPerRun is 0 if unknown.
func (r *row) cpuPerRun() time.Duration {
	if n := len(r.samples) + len(r.failures); n > 0 {
		return r.cpu / time.Duration(n)
	}
	return 0
}
