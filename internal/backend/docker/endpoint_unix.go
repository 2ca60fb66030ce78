//go:build unix

package docker

import (
	"io/fs"
	"os"
	"syscall"
)

// Where the engines of a system listen, where nothing says otherwise.
const (
	defaultHost = "unix:///var/run/docker.sock"
	podmanHost  = "unix:///run/podman/podman.sock"
)

// isOurs says whether what is described belongs to this user.
func isOurs(info fs.FileInfo) bool { return int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() }
