//go:build !unix

package engine

import (
	"context"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func (e *Engine) forkOf(*job) *sandbox.Fork { return nil }

// park is for systems that pass descriptors between processes.
func (s *Sandbox) park(context.Context, *sandbox.Fork, bool) error { return sandbox.ErrNoZygote }
