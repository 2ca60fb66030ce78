package main

import (
	"net"
	"path/filepath"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const localSocket = "fumehood.sock" // in the run folder; commands of the same user reach the server by it

// listenLocal listens on the local socket, which only this user can connect to: mode 0600 in a folder of mode 0700. If
// that fails, it warns and returns nil: the server works without.
func (a *app) listenLocal(f *serveFlags, runDir string) net.Listener {
	if f.noLocalSocket || strings.HasPrefix(f.listen, unixPrefix) {
		return nil
	}
	root, err := rundir.Make(runDir)
	if err == nil {
		defer root.Close()
		var l net.Listener
		if l, err = listenUnix(filepath.Join(root.Name(), localSocket)); err == nil {
			return l
		}
	}
	if sandbox.KindOf(err) != sandbox.Unsupported { // such systems have no private sockets
		a.warn("no local socket for commands of this user: %s", terminal.OneLine(err.Error()))
	}
	return nil
}
