//go:build !unix

package main

import (
	"net"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// listenUnix fails: it needs file modes that keep other users out.
func listenUnix(string) (net.Listener, error) {
	return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "--listen", Msg: "this system has no private Unix sockets", Fix: "listen on localhost with an API key"}
}
