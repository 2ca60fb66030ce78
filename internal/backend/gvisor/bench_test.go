package gvisor

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// BenchmarkIdle measures an idle sandbox: milliseconds of CPU per second.
func BenchmarkIdle(b *testing.B) {
	box := create(b, openIn(b, filepath.Join(b.TempDir(), "run"), ""), spec())
	run(b, box, "true")
	used := func() time.Duration {
		u, err := box.Usage(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		return u.CPU
	}
	const watched = time.Second
	time.Sleep(watched) // what the execution left to do is done then
	before := used()
	for b.Loop() {
		time.Sleep(watched)
	}
	b.ReportMetric(float64((used()-before).Microseconds())/1000/float64(b.N), "cpu-ms/s")
}

// BenchmarkTrue is an execution of a command that does nothing, in a living sandbox.
func BenchmarkTrue(b *testing.B) { benchmarkExecution(b, "/bin/true") }

// BenchmarkPython is an execution of a command that starts Python.
func BenchmarkPython(b *testing.B) { benchmarkExecution(b, "/usr/bin/python3", "-c", "pass") }

// BenchmarkTrueInside is the same started by a shell inside: the sandbox's own kernel time, a lower bound for any
// execution.
func BenchmarkTrueInside(b *testing.B) { benchmarkInside(b, "/bin/true") }

// BenchmarkPythonInside is the same with Python.
func BenchmarkPythonInside(b *testing.B) { benchmarkInside(b, "/usr/bin/python3 -c pass") }

func benchmarkInside(b *testing.B, command string) {
	box := create(b, openIn(b, filepath.Join(b.TempDir(), "run"), ""), spec())
	c := greet(b, box)
	execute(b, c, "/bin/bash", "-c", command+"; true")
	b.ResetTimer()
	execute(b, c, "/bin/bash", "-c", "for ((i = 0; i < "+strconv.Itoa(b.N)+"; i++)); do "+command+"; done")
}

func benchmarkExecution(b *testing.B, argv ...string) {
	box := create(b, openIn(b, filepath.Join(b.TempDir(), "run"), ""), spec())
	c := greet(b, box)
	execute(b, c, argv...)
	for b.Loop() {
		execute(b, c, argv...)
	}
}

// BenchmarkClose ends a sandbox.
func BenchmarkClose(b *testing.B) {
	backend := openIn(b, filepath.Join(b.TempDir(), "run"), "")
	var closing time.Duration
	for b.Loop() {
		box := create(b, backend, spec())
		began := time.Now()
		if err := box.Close(); err != nil {
			b.Fatal(err)
		}
		closing += time.Since(began)
	}
	b.ReportMetric(float64(closing.Microseconds())/1000/float64(b.N), "close-ms/op")
}

// BenchmarkCheckpoint saves a sandbox that contains only its guest.
func BenchmarkCheckpoint(b *testing.B) {
	box := create(b, openIn(b, filepath.Join(b.TempDir(), "run"), ""), livingSpec())
	for b.Loop() {
		if err := checkpointInto(box, b.TempDir()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRestore restores it.
func BenchmarkRestore(b *testing.B) {
	backend := openIn(b, filepath.Join(b.TempDir(), "run"), "")
	dir := b.TempDir()
	if err := checkpointInto(create(b, backend, livingSpec()), dir); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		box, err := backend.Restore(context.Background(), dir, livingSpec())
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := box.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
