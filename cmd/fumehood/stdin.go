package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// stdinTimeout is how long we wait for the end of standard input before a note says so.
const stdinTimeout = 2 * time.Second

// stdinFlags choose the program's input. The default is none, as our standard input may be our parent's pipe.
type stdinFlags struct {
	interactive bool
	tty         bool
	stdin       string
}

func (f *stdinFlags) add(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.interactive, "interactive", "i", false, "the program reads our standard input, once that has ended")
	flags.BoolVarP(&f.tty, "tty", "t", false, "not supported yet: a terminal for the program")
	_ = flags.MarkHidden("tty")
	flags.StringVar(&f.stdin, "stdin", "none", "the program reads this `FILE`; - is the same as -i (default none)")
}

// takesStdin reports whether the program reads our standard input.
func (f *stdinFlags) takesStdin() bool { return f.interactive || f.stdin == "-" }

func (f *stdinFlags) check() error {
	switch {
	case f.tty:
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "-t", Msg: "a sandbox has no terminal yet", Fix: "leave out -t; -i alone passes standard input on"}
	case f.interactive && f.stdin != "none" && f.stdin != "-":
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--stdin", Msg: "the program cannot read both our standard input and a file", Fix: "leave out -i or --stdin"}
	}
	return nil
}

// programStdin returns what the program reads.
func (a *app) programStdin(ctx context.Context, f *stdinFlags) ([]byte, error) {
	if f.takesStdin() {
		return a.readStdin(ctx, plan.MaxStdin)
	}
	if f.stdin == "none" || f.stdin == "" {
		return nil, nil
	}
	data, err := a.readNamed(f.stdin, plan.MaxStdin, sandbox.FormatBytes(plan.MaxStdin))
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "--stdin", Err: err}
	}
	return data, nil
}

// readStdin reads our standard input to its end, up to a limit. When ctx ends, it abandons a read that never ends: we exit then too.
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
			// Also with --quiet: nothing else shows that nothing runs yet, and no timeout applies.
			a.say(faint, "note: waiting for standard input to end")
		}
	}
}
