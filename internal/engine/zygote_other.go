//go:build !unix

package engine

import (
	"context"

	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// fork is for systems that pass descriptors between processes.
func (x *Run) fork(context.Context, *sandbox.Fork) (*client.Process, error) { return nil, nil }

func (e *Engine) forkOf(*job) *sandbox.Fork { return nil }

func (s *Sandbox) park(context.Context, *sandbox.Fork) error { return nil }
