//go:build !unix

package engine

import (
	"context"

	"github.com/fumehood-dev/fumehood/internal/guest/client"
)

// fork is for systems that pass descriptors between processes.
func (x *Run) fork(context.Context) (*client.Process, error) { return nil, nil }
