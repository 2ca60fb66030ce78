package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/backend"
	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/volume"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Main is the whole program and its environment, so that tests can run it in their own process.
type Main struct {
	Stdin          *os.File
	Stdout, Stderr io.Writer
	LookupEnv      func(name string) (string, bool)
	Environ        func() []string

	// The first interrupt ends the command and its sandbox in order, the second calls Exit. May be nil.
	Interrupts <-chan os.Signal
	Exit       func(code int)

	// Lack names features that this host is assumed to lack, for tests.
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
	exitNotFound   = 1 // of rm
	exitTimeout    = 124
	exitFailure    = 125
	exitRejected   = 126
	exitCanceled   = 130
	exitKilled     = 137
)

type app struct {
	Main
	interrupt context.CancelCauseFunc

	// Flags of every command.
	settings settings.Settings
	json     bool
	quiet    bool
	verbose  bool

	containers struct {
		image, runtime string
		imageBytes     sizeValue
		// pull says when images are fetched. Clients of serve must not fill the host's disk, and doctor changes
		// nothing.
		pull pullValue
	}

	volumes struct {
		options volume.Options
		store   *volume.Store // made on first use
	}

	line     commandLine
	signals  signals
	serveLog *serveLog // nil but in serve
}

// commandLine is the command line, and what replaces serve when it is read again.
type commandLine struct {
	args   []string // without the program's name
	reread func(*cobra.Command, *serveFlags) error
	fresh  bool // it runs one program in a fresh sandbox
}

// signals are what commands do at signals instead of ending.
type signals struct {
	hangups chan struct{} // has a value while a reload is due; nil outside serve

	mu        sync.Mutex  // guards all below
	intercept func()      // receives interrupts from the keyboard; nil: they end the command
	reload    func() bool // receives SIGHUP; nil or false: it ends the command
}

// exitError ends the program with this code and without a message.
type exitError int

func (e exitError) Error() string { return fmt.Sprint("exit code ", int(e)) }

var errInterrupted = errors.New("interrupted")

// Run runs one command line and returns its exit code. args exclude the program's name.
func (m Main) Run(ctx context.Context, args []string) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &app{Main: m, interrupt: cancel, line: commandLine{args: args}}
	defer a.watchInterrupts()()

	root := a.newRoot()
	root.SetArgs(args)
	root.SetIn(m.Stdin)
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	err := root.ExecuteContext(ctx)
	if s := a.volumes.store; s != nil {
		err = errors.Join(err, s.Close())
	}
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

// watchInterrupts ends the command at the first interrupt and the program at the second, until stop is called.
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
			if signal == os.Interrupt && a.intercepted() || signal == syscall.SIGHUP && a.reloaded() {
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

// onInterrupt calls do for interrupts from the keyboard, which end the command again after stop. do must not block.
func (a *app) onInterrupt(do func()) (stop func()) {
	set := func(do func()) {
		a.signals.mu.Lock()
		defer a.signals.mu.Unlock()
		a.signals.intercept = do
	}
	set(do)
	return func() { set(nil) }
}

// onHangup calls do for SIGHUP, until stop is called. do must not block. If it returns false, the command ends.
func (a *app) onHangup(do func() bool) (stop func()) {
	set := func(do func() bool) {
		a.signals.mu.Lock()
		defer a.signals.mu.Unlock()
		a.signals.reload = do
	}
	set(do)
	return func() { set(nil) }
}

func (a *app) reloaded() bool {
	a.signals.mu.Lock()
	do := a.signals.reload
	a.signals.mu.Unlock()
	return do != nil && do()
}

func (a *app) intercepted() bool {
	a.signals.mu.Lock()
	do := a.signals.intercept
	a.signals.mu.Unlock()
	if do != nil {
		do()
	}
	return do != nil
}

// note prints a note on stderr, unless --quiet.
func (a *app) note(colour terminal.Colour, format string, args ...any) {
	if !a.quiet && !a.serveLog.record(slog.LevelInfo, fmt.Sprintf(format, args...)) {
		a.say(colour, "note: "+format, args...)
	}
}

// warn prints a warning on stderr, unless --quiet.
func (a *app) warn(format string, args ...any) {
	if !a.quiet && !a.serveLog.record(slog.LevelWarn, fmt.Sprintf(format, args...)) {
		a.say(terminal.Yellow, "warning: "+format, args...)
	}
}

// paint colours text for w, if that is a terminal and NO_COLOR is not set.
func (a *app) paint(w io.Writer, c terminal.Colour, text string) string {
	if c == terminal.Plain || a.env().Get("NO_COLOR") != "" || a.env().Get("TERM") == "dumb" || !terminal.Is(w) {
		return text
	}
	return string(c) + text + terminal.Reset
}

func (a *app) say(c terminal.Colour, format string, args ...any) {
	if a.serveLog.record(slog.LevelInfo, fmt.Sprintf(format, args...)) {
		return
	}
	fmt.Fprintln(a.Stderr, a.paint(a.Stderr, c, fmt.Sprintf(format, args...)))
}

func (a *app) printJSON(value any) error {
	e := json.NewEncoder(terminal.JSON(a.Stdout))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

func (a *app) env() settings.Environment { return a.LookupEnv }

// host resolves and opens the files that the user names.
func (a *app) host() hostfiles.Host { return hostfiles.Host{Own: a.env().OwnPaths} }

// logger logs warnings to stderr, or everything with --verbose.
func (a *app) logger() *slog.Logger {
	if a.serveLog != nil {
		return a.serveLog.logger
	}
	level := slog.LevelWarn
	switch {
	case a.verbose:
		level = slog.LevelDebug
	case a.quiet:
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: level}))
}
