//go:build !linux

package docker

// isLocal is false: containers run on Linux, in a virtual machine or elsewhere.
func (to *connection) isLocal() bool { return false }

func (to *connection) hasOurFolders() bool { return false }
