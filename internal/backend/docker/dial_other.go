//go:build !linux

package docker

import (
	"context"
	"errors"
	"net"
)

// dialSocket is never called: container files are never on such a host.
func (box *Box) dialSocket(context.Context) (net.Conn, error) { return nil, errors.ErrUnsupported }
