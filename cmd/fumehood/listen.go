package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/internal/host/systemd"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// listen returns the socket that the service manager passed, or listens on the address of the flag.
func (a *app) listen(ctx context.Context, f *serveFlags, keys *httpd.Keyring) (listener net.Listener, err error) {
	if listener, err = systemd.Listener(a.LookupEnv); err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "socket of the service manager", Err: err}
	}
	if listener != nil {
		if err := checkPassed(listener, keys); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		return listener, nil
	}
	err = a.afterPredecessor(ctx, f.door.listen, func() (err error) {
		listener, err = listen(f.door.listen, keys)
		return err
	})
	return listener, err
}

// checkPassed refuses a socket that others can reach if there are no keys.
func checkPassed(l net.Listener, keys *httpd.Keyring) error {
	if l.Addr().Network() != "unix" {
		return httpd.CheckListen(l.Addr().String(), keys)
	}
	info, err := os.Stat(l.Addr().String())
	if keys.Required() || err == nil && info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return invalid("socket of the service manager", "other users can reach it, and no API key is set",
		"set SocketMode=0600 in the socket unit, or --api-key-file")
}

// listen listens on an address. An address that other machines can reach requires keys. Busy: it is in use.
func listen(address string, keys *httpd.Keyring) (net.Listener, error) {
	if err := httpd.CheckListen(address, keys); err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(address, client.UnixPrefix); ok {
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
		e.Kind = sandbox.Busy
		e.Fix = "another program listens there: stop it, or choose another address, such as --listen 127.0.0.1:7071"
	}
	return nil, e
}

func urlOf(addr net.Addr) string {
	if addr.Network() == "unix" {
		return client.UnixPrefix + addr.String()
	}
	return "http://" + addr.String()
}

// forUser reports whether only this user can send requests: the server listens on a socket, and others have no keys.
func (f *doorFlags) forUser() bool {
	return strings.HasPrefix(f.listen, client.UnixPrefix) && f.keyFile == ""
}

const localSocket = "fumehood.sock" // in the run folder; commands of the same user reach the server by it

// listenLocal listens on the local socket, which only this user can connect to: mode 0600 in a folder of mode 0700. If
// that fails, it warns and returns nil: the server works without.
func (a *app) listenLocal(f *serveFlags, runDir string) net.Listener {
	if f.door.noLocalSocket || strings.HasPrefix(f.door.listen, client.UnixPrefix) {
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

type door struct {
	server   *http.Server
	listener net.Listener
}

// url returns the URL of the door.
func (d *door) url(f *doorFlags) string {
	if tcp := urlOf(d.listener.Addr()); !f.secure() || !strings.HasPrefix(tcp, "http:") {
		return tcp
	}
	return "https://" + d.listener.Addr().String()
}

// closeDoors ends all connections.
func closeDoors(doors []door) error {
	var errs []error
	for _, d := range doors {
		errs = append(errs, d.server.Close())
	}
	return errors.Join(errs...)
}
