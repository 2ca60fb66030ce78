package main

import (
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// unixPrefix marks an address that is the path of a Unix socket.
const unixPrefix = "unix:"

// listen listens on an address. An address that other machines can reach requires keys.
func listen(address string, keys []httpd.Key) (net.Listener, error) {
	if err := httpd.CheckListen(address, keys); err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		return listenUnix(path)
	}
	network := "tcp"
	if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).To4() != nil {
		network = "tcp4" // Go would also listen on IPv6 for 0.0.0.0
	}
	l, err := net.Listen(network, address)
	if err == nil {
		return l, nil
	}
	e := &sandbox.Error{Kind: sandbox.Unavailable, Op: "--listen", Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		e.Fix = "another program listens there: stop it, or choose another address, such as --listen 127.0.0.1:7071"
	}
	return nil, e
}

func urlOf(addr net.Addr) string {
	if addr.Network() == "unix" {
		return unixPrefix + addr.String()
	}
	return "http://" + addr.String()
}
