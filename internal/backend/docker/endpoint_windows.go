package docker

import "io/fs"

// Where the engines of a system listen, where nothing says otherwise.
const (
	defaultHost = "npipe:////./pipe/docker_engine"
	podmanHost  = "npipe:////./pipe/podman-machine-default"
)

// isOurs is asked of unix sockets, which are nobody's here.
func isOurs(fs.FileInfo) bool { return true }
