//go:build !linux

package docker

import (
	"context"
	"errors"
	"io/fs"
	"net"

	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Elsewhere containers run on Linux in a virtual machine or on another host, so nothing of theirs is on this host.

func (to *connection) isLocal() bool                          { return false }
func (to *connection) hasOurFolders() bool                    { return false }
func (to *connection) mapsOwners() bool                       { return false }
func (to *connection) linkable() error                        { return tap.Available() }
func ownerOf(fs.FileInfo) (uint32, bool)                      { return 0, false }
func (box *Box) dialSocket(context.Context) (net.Conn, error) { return nil, errors.ErrUnsupported }
func (box *Box) showMapped(*sandbox.Spec, int) error          { return nil }
func (box *Box) plug(context.Context) error                   { return tap.Available() }

type counters struct{ pid int }

func countersOf(*connection, int) *counters                        { return nil }
func (*counters) read(*sandbox.Usage)                              {}
func (*counters) limits() (memory, cpuMillis, pids int64, ok bool) { return 0, 0, 0, false }
