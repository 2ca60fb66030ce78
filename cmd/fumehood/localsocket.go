package main

import (
	"net"
	"path/filepath"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// localSocket is the name, in the run folder, of the socket on which the commands of the same user find the server.
const localSocket = "fumehood.sock"

// listenLocal listens on the local socket, which only this user can connect to: mode 0600 in a folder of mode 0700. If it cannot, the
// server goes on without, and says so.
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
	if sandbox.KindOf(err) != sandbox.Unsupported { // as on systems without private sockets
		a.warn("no local socket for commands of this user: %s", oneLine(err.Error()))
	}
	return nil
}
