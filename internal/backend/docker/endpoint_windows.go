package docker

// Where the engines of a system listen, where nothing says otherwise.
const (
	defaultHost = "npipe:////./pipe/docker_engine"
	podmanHost  = "npipe:////./pipe/podman-machine-default"
)
