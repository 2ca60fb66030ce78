//go:build unix

package docker

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	defaultHost = "unix:///var/run/docker.sock"
	podmanHost  = "unix:///run/podman/podman.sock"
)

// isOurs reports whether a file belongs to this user.
func isOurs(info fs.FileInfo) bool { return int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() }
