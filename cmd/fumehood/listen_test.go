//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// listenerAt is a listener of which only the address is used.
type listenerAt struct {
	net.Listener
	addr net.Addr
}

func (l listenerAt) Addr() net.Addr { return l.addr }

// TestCheckPassed: without keys, a socket of the service manager must be one that only this user can reach.
func TestCheckPassed(t *testing.T) {
	socket := func(mode os.FileMode) net.Addr {
		path := filepath.Join(t.TempDir(), "socket")
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // regardless of the umask
			t.Fatal(err)
		}
		return &net.UnixAddr{Name: path, Net: "unix"}
	}
	key, err := httpd.NewKey("alice", strings.Repeat("a", 32))
	if err != nil {
		t.Fatal(err)
	}
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 7070} }
	for _, c := range []struct {
		addr    net.Addr
		without bool // it is accepted without keys
	}{
		{socket(0o600), true}, {socket(0o660), false}, {socket(0o606), false},
		{&net.UnixAddr{Name: "@abstract", Net: "unix"}, false}, // any user can connect to it
		{tcp("127.0.0.1"), true}, {tcp("::1"), true}, {tcp("0.0.0.0"), false}, {tcp("192.0.2.1"), false},
	} {
		if err := checkPassed(listenerAt{addr: c.addr}, nil); (err == nil) != c.without {
			t.Errorf("%v without keys: %v", c.addr, err)
		}
		if err := checkPassed(listenerAt{addr: c.addr}, httpd.NewKeyring(key)); err != nil {
			t.Errorf("%v with keys: %v", c.addr, err)
		}
	}
}
