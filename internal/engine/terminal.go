package engine

import (
	"context"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Rows, Cols uint16 }

// MaxTerminal is the most rows or columns of a terminal.
const MaxTerminal = 10_000

func (t TerminalSize) check() error {
	if t.Rows < 1 || t.Cols < 1 || t.Rows > MaxTerminal || t.Cols > MaxTerminal {
		return sandbox.Invalidf("terminal", "%d rows and %d columns are not from 1 to %d", t.Rows, t.Cols, MaxTerminal)
	}
	return nil
}

func (r *RunRequest) checkTerminal() error {
	switch {
	case r.Terminal == nil:
		return nil
	case len(r.Request.Stdin) > 0 || r.Interactive:
		return sandbox.Invalidf("terminal", "cannot be combined with other input")
	}
	return r.Terminal.check()
}

// Resize changes the size of the run's terminal, whose programs get SIGWINCH. NotFound: the run is not running.
func (x *Run) Resize(ctx context.Context, size TerminalSize) error {
	if x.req.Terminal == nil {
		return sandbox.Invalidf("terminal", "this run has none")
	}
	if err := size.check(); err != nil {
		return err
	}
	p, err := x.running(ctx, "resize")
	if err != nil {
		return err
	}
	return p.Resize(ctx, size.Rows, size.Cols)
}

// Started returns once the run's process has started, with its id in the sandbox, or once the run has ended: the id is
// then 0 if no process started.
func (x *Run) Started(ctx context.Context) (pid int32, err error) {
	select {
	case <-x.process.ready:
	case <-x.done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return x.Info().PID, nil
}
