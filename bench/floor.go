package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// floorSource is a program that does only what isolation needs: no run can take less.
//
//go:embed floor/floor.c
var floorSource []byte

const floorName = "isolation alone, in C"

// floor is the program, running.
type floor struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
}

// buildFloor compiles the program in dir and returns its path.
func buildFloor(dir string) (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return "", errors.New(floorName + " needs Linux, root and a C compiler")
	}
	source, program := filepath.Join(dir, "floor.c"), filepath.Join(dir, "floor")
	if err := os.WriteFile(source, floorSource, 0o600); err != nil {
		return "", err
	}
	if text, err := exec.Command(cc, "-O2", "-o", program, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", floorName, err, text)
	}
	return program, nil
}

func startFloor(program string) (f *floor, err error) {
	f = &floor{cmd: exec.Command(program)}
	f.cmd.Stderr = os.Stderr
	if f.in, err = f.cmd.StdinPipe(); err == nil {
		f.out, err = f.cmd.StdoutPipe()
	}
	if err == nil {
		err = f.cmd.Start()
	}
	return f, err
}

// run makes one sandbox with one process in it.
func (f *floor) run(context.Context) (string, time.Duration, error) {
	if _, err := f.in.Write([]byte{1}); err != nil {
		return "", 0, err
	}
	text := make([]byte, len(answer))
	_, err := io.ReadFull(f.out, text)
	return string(text), 0, err
}

// stop ends the program.
func (f *floor) stop() error {
	f.in.Close()
	return f.cmd.Wait()
}

// floorRow is the floor with one client. stop ends its program.
func floorRow(dir string) (_ *row, stop func() error, err error) {
	program, err := buildFloor(dir)
	if err != nil {
		return nil, nil, err
	}
	f, err := startFloor(program)
	if err != nil {
		return nil, nil, err
	}
	return &row{name: floorName, class: native, language: python, want: answer, run: f.run}, f.stop, nil
}

// floorLoop makes n runs of the floor, with one program for each CPU.
func (r *report) floorLoop(ctx context.Context, program string, n int) (all loop, err error) {
	floors := make(chan *floor, runtime.NumCPU())
	defer func() {
		close(floors)
		for f := range floors {
			err = errors.Join(err, f.stop())
		}
	}()
	for range cap(floors) {
		f, err := startFloor(program)
		if err != nil {
			return all, err
		}
		floors <- f
	}
	return r.closed(ctx, course{"burst", floorName, cap(floors), n, func(ctx context.Context) error {
		f := <-floors
		defer func() { floors <- f }()
		text, _, err := f.run(ctx)
		if err == nil && text != answer {
			err = fmt.Errorf("stdout was %q, not %q", text, answer)
		}
		return err
	}, func() error { return nil }})
}
