//go:build !unix

package main

import "net"

// listenUnix fails: it needs file modes that keep other users out.
func listenUnix(string) (net.Listener, error) {
	return nil, unsupported("--listen", "this system has no private Unix sockets",
		"listen on localhost with an API key")
}
