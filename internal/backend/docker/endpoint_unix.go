//go:build unix

package docker

// Where the engines of a system listen, where nothing says otherwise.
const (
	defaultHost = "unix:///var/run/docker.sock"
	podmanHost  = "unix:///run/podman/podman.sock"
)
