package engine

import (
	"context"

	"github.com/glovebox-dev/glovebox/internal/eventlog"
	"github.com/glovebox-dev/glovebox/internal/guest/client"
)

// resumed is what is known of an execution that began under an earlier server.
type resumed struct {
	last eventlog.Last
}

// attach follows the process from where the log ends.
func (r *resumed) attach(ctx context.Context, x *Execution) (*client.Process, error) {
	at := x.base
	at.ID, at.Stdout, at.Stderr = string(x.id), r.last.Stdout, r.last.Stderr
	return x.sandbox.attach(ctx, at)
}
