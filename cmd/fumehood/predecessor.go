package main

import (
	"context"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// A killed server can hold its address and its store for some time: it takes time to end, and children of it that have
// not executed their programs yet have copies of its descriptors (fork(2)). On a busy machine that took 0.1 s.
const (
	predecessorTime  = 3 * time.Second
	predecessorPause = 10 * time.Millisecond
)

// afterPredecessor repeats a step while it fails as Busy, for at most predecessorTime. It returns the last error.
func (a *app) afterPredecessor(ctx context.Context, held string, step func() error) error {
	deadline := time.Now().Add(predecessorTime)
	for noted := false; ; noted = true {
		err := step()
		if sandbox.KindOf(err) != sandbox.Busy || time.Now().After(deadline) {
			return err
		}
		if !noted {
			a.note(terminal.Plain, "%s is in use; waiting up to %s for a server that is ending", held, predecessorTime)
		}
		select {
		case <-time.After(predecessorPause):
		case <-ctx.Done():
			return err
		}
	}
}
