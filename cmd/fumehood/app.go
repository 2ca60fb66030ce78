package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/backend"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Main is the whole program and its surroundings, so that tests can run it in their own process.
type Main struct {
	Stdin          *os.File
	Stdout, Stderr io.Writer
	LookupEnv      func(name string) (string, bool)
	Environ        func() []string

	// Interrupts: the first ends the command and its sandbox in order, the second exits at once by Exit. May be nil.
	Interrupts <-chan os.Signal
	Exit       func(code int)

	// Lack is what this host is assumed to lack, for the test of downgrades.
	Lack []string

	// Backends opens the backends; nil opens those of this system.
	Backends func(backend.Options) (*backend.Set, error)

	// Gate opens networks; nil dials out from this host.
	Gate sandbox.Gate
}

// Fumehood's own exit codes. All others are the program's.
const (
	exitNotReady   = 1 // of doctor
	exitNotBlocked = 1 // of verify
	exitTimeout    = 124
	exitFailure    = 125
	exitRejected   = 126
	exitCanceled   = 130
	exitKilled     = 137
)

// app is one run of the program.
type app struct {
	Main
	interrupt context.CancelCauseFunc

	// Flags of every command.
	config  string
	json    bool
	quiet   bool
	verbose bool

	containers containerFlags

	configured []string // flags set by a variable or the configuration file

	mu        sync.Mutex // guards intercept
	intercept func()     // takes interrupts of the keyboard in place of ending the command; nil for none
}

// exitError ends the program with a code and without a message.
type exitError int

func (e exitError) Error() string { return fmt.Sprint("exit code ", int(e)) }

var errInterrupted = errors.New("interrupted")

// Run runs one command line and returns its exit code. args exclude the program's name.
func (m Main) Run(ctx context.Context, args []string) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &app{Main: m, interrupt: cancel}
	defer a.watchInterrupts()()

	root := a.newRoot()
	root.SetArgs(args)
	root.SetIn(m.Stdin)
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	err := root.ExecuteContext(ctx)
	var code exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.Is(context.Cause(ctx), errInterrupted):
		return exitCanceled
	}
	a.fail(err)
	return exitFailure
}

// watchInterrupts ends the command at the first interrupt and the program at the second. The returned function stops it.
func (a *app) watchInterrupts() (stop func()) {
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for seen := 0; ; {
			var signal os.Signal
			select {
			case <-done:
				return
			case signal = <-a.Interrupts:
			}
			if signal == os.Interrupt && a.intercepted() {
				continue
			}
			if seen++; seen > 1 {
				a.Exit(exitCanceled)
			}
			a.interrupt(errInterrupted)
		}
	})
	return func() {
		close(done)
		watch.Wait()
	}
}

// onInterrupt has do take interrupts of the keyboard, in place of the end of this command, until stop. do must return at once.
func (a *app) onInterrupt(do func()) (stop func()) {
	set := func(do func()) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.intercept = do
	}
	set(do)
	return func() { set(nil) }
}

func (a *app) intercepted() bool {
	a.mu.Lock()
	do := a.intercept
	a.mu.Unlock()
	if do != nil {
		do()
	}
	return do != nil
}

// note prints a remark on stderr, unless --quiet.
func (a *app) note(colour colour, format string, args ...any) {
	if !a.quiet {
		a.say(colour, "note: "+format, args...)
	}
}

// warn prints a warning on stderr, unless --quiet.
func (a *app) warn(format string, args ...any) {
	if !a.quiet {
		a.say(yellow, "warning: "+format, args...)
	}
}

// logger logs warnings to stderr, and with --verbose everything.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn
	switch {
	case a.verbose:
		level = slog.LevelDebug
	case a.quiet:
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: level}))
}
