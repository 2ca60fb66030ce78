package main

import (
	"io"
	"net"
	"os"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/guest/confine"
)

// bridge joins stdin and stdout to the guest's socket. It is executed in the container of a guest whose socket the host cannot reach:
// the engine is another machine's, or the container's files are in a virtual machine's. It ends with either side.
func bridge(path string) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		fail(err)
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin) // the host hung up, or died
		os.Exit(0)
	}()
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		fail(err)
	}
}

// bridged is the socket that this process is to be a bridge to, or "" where it is a guest.
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
