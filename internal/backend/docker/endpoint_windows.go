package docker

import "io/fs"

// Default addresses of the engines.
const (
	defaultHost = "npipe:////./pipe/docker_engine"
	podmanHost  = "npipe:////./pipe/podman-machine-default"
)

// isOurs only concerns unix sockets, which have no owner here.
func isOurs(fs.FileInfo) bool { return true }
