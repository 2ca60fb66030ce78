package main

import (
	"io"
	"net"
	"os"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
)

// bridge connects stdin and stdout to the guest's socket. It runs in the guest's container if the host cannot reach the
// socket, because the engine or its files are on another machine. It ends with either side.
func bridge(path string) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		fail(err)
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin) // the host closed it, or died
		os.Exit(0)
	}()
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		fail(err)
	}
}

// bridged returns the socket for the bridge, or "" if this process is a guest.
func bridged() string {
	if len(os.Args) != 2 {
		return ""
	}
	path, _ := strings.CutPrefix(os.Args[1], confine.BridgeArg)
	if path == os.Args[1] {
		return ""
	}
	return path
}
