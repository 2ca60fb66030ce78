//go:build !linux

package attack

import (
	"context"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Canaries are planted on the host for attacks to find.
type Canaries struct{}

var errNotHere = &sandbox.Error{Kind: sandbox.Unsupported, Op: "attack",
	Msg: "attacks can only be judged on a Linux host", Fix: "run it on Linux"}

// Plant fails: nothing is planted on this system.
func Plant() (*Canaries, error) { return nil, errNotHere }

// Close does nothing.
func (*Canaries) Close() error { return nil }

// Arena is a backend under attack.
type Arena struct{}

// Open fails: no backend is attacked on this system.
func Open(context.Context, Options) (*Arena, error) { return nil, errNotHere }

// Try makes no attack.
func (*Arena) Try(context.Context, *Attack) Verdict {
	return Verdict{Outcome: Unclear, Why: errNotHere.Msg}
}

// Close does nothing.
func (*Arena) Close() error { return nil }

// Unenforced is empty.
func (*Arena) Unenforced() []string { return nil }
