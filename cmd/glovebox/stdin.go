package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// stdinTimeout is how long we wait for our standard input to end before we say that we wait.
const stdinTimeout = 2 * time.Second

// programStdin returns what the program reads. Our own standard input is handed on where it is a pipe or a file; a terminal is
// not, as the program is not interactive.
func (a *app) programStdin(ctx context.Context, f *sandboxFlags) ([]byte, error) {
	switch f.stdin {
	case "none", "":
		return nil, nil
	case "auto", "-":
		if !a.stdinIsData() {
			return nil, nil
		}
		return a.readStdin(ctx, engine.MaxStdin)
	}
	data, err := a.readNamed(f.stdin, engine.MaxStdin, sandbox.FormatBytes(engine.MaxStdin))
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "--stdin", Err: err}
	}
	return data, nil
}

func (a *app) stdinIsData() bool {
	if a.Stdin == nil {
		return false
	}
	info, err := a.Stdin.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

// readStdin reads our standard input to its end, at most so many bytes. A read that never ends is left behind when ctx ends: the
// program ends then as well.
func (a *app) readStdin(ctx context.Context, most int64) ([]byte, error) {
	if a.Stdin == nil {
		return nil, sandbox.Invalidf("standard input", "there is none")
	}
	type outcome struct {
		data []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		data, err := readAtMost(io.Reader(a.Stdin), most, sandbox.FormatBytes(most))
		done <- outcome{data, err}
	}()
	waiting := time.NewTimer(stdinTimeout)
	defer waiting.Stop()
	for {
		select {
		case o := <-done:
			if o.err != nil {
				return nil, fmt.Errorf("standard input: %w", o.err)
			}
			return o.data, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-waiting.C:
			// Quiet or not: nothing else tells that nothing runs yet, and no time limit ends this.
			a.say(faint, "glovebox: waiting for standard input to end; --stdin none runs without it")
		}
	}
}
