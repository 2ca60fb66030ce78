//go:build !linux

package docker

import (
	"io/fs"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// mapsOwners is false: the containers are not on this host.
func (to *connection) mapsOwners() bool { return false }

func ownerOf(fs.FileInfo) (uint32, bool) { return 0, false }

func (box *Box) showWritable(*sandbox.Spec, int) error { return nil }
