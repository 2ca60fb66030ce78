//go:build !unix

package main

import (
	"net"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// listenUnix needs a mode that keeps other users out.
func listenUnix(string) (net.Listener, error) {
	return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "--listen", Msg: "there are no Unix sockets for one user here", Fix: "listen on localhost with an API key"}
}
