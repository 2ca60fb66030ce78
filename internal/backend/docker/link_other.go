//go:build !linux

package docker

import (
	"context"

	"github.com/fumehood-dev/fumehood/internal/host/tap"
)

// linkable returns an error: engines run their containers in a virtual machine here.
func (to *connection) linkable() error { return tap.Available() }

func (box *Box) plug(context.Context) error { return tap.Available() }
