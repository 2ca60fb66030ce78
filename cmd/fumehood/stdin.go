package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// stdinTimeout is the wait for the end of standard input until a note reports it.
const stdinTimeout = 2 * time.Second

// stdinFlags choose the program's input. The default is none, because our standard input may be a pipe of the parent.
type stdinFlags struct {
	interactive bool
	tty         bool
	stdin       string
}

func (f *stdinFlags) add(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.interactive, "interactive", "i", false,
		"pass our standard input to the program, once it has ended")
	flags.BoolVarP(&f.tty, "tty", "t", false, "not supported yet: a terminal for the program")
	_ = flags.MarkHidden("tty")
	flags.StringVar(&f.stdin, "stdin", "none", "the program reads this `FILE`; - is the same as -i (default none)")
}

// takesStdin reports whether the program reads our standard input.
func (f *stdinFlags) takesStdin() bool { return f.interactive || f.stdin == "-" }

func (f *stdinFlags) check() error {
	switch {
	case f.tty:
		return unsupported("-t", "a sandbox has no terminal yet", "omit -t; -i alone passes standard input on")
	case f.interactive && f.stdin != "none" && f.stdin != "-":
		return invalid("--stdin", "the program cannot read both our standard input and a file", "omit -i or --stdin")
	}
	return nil
}

func (a *app) programStdin(ctx context.Context, f *stdinFlags) ([]byte, error) {
	if f.takesStdin() {
		return a.readStdin(ctx, plan.MaxStdin)
	}
	if f.stdin == "none" || f.stdin == "" {
		return nil, nil
	}
	return a.host().Read("--stdin", f.stdin, plan.MaxStdin)
}

// readStdin reads standard input to its end, up to a limit. When ctx ends, it abandons the read.
func (a *app) readStdin(ctx context.Context, limit int64) ([]byte, error) {
	if a.Stdin == nil {
		return nil, errNoStdin
	}
	// Also with --quiet: nothing else shows that nothing runs yet, and no timeout applies.
	note := func() { a.say(terminal.Faint, "note: waiting for standard input to end") }
	defer time.AfterFunc(stdinTimeout, note).Stop()
	data, err := terminal.Await(ctx, func() ([]byte, error) { return hostfiles.ReadAll(a.Stdin, limit) })
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("standard input: %w", err)
	}
	return data, err
}

var errNoStdin = sandbox.Invalidf("standard input", "it is closed")
