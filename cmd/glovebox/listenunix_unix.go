//go:build unix

package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// unixListener is a socket in the file system, which goes when it is closed.
type unixListener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
	once sync.Once
}

// listenUnix makes a socket that its owner alone can connect to, at a path where nothing is, or a socket that a server of ours left behind.
//
// It is made in a folder that nobody else can enter, and is linked to its place once its mode is set. So it is never open to others, not even
// for a moment, without a change of the umask, which all threads share; and a link never takes the place of what is there.
func listenUnix(path string) (net.Listener, error) {
	if err := clearStale(path); err != nil {
		return nil, err
	}
	l, err := bindPrivately(path)
	if err != nil {
		e := &sandbox.Error{Kind: sandbox.Unavailable, Op: "--listen", Err: err}
		if errors.Is(err, syscall.EINVAL) {
			e.Fix = "the path of a socket is short, some 80 characters at the most: choose another"
		}
		return nil, e
	}
	return l, nil
}

func bindPrivately(path string) (_ *unixListener, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".gbx") // of mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	private := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: private, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it would look for the private name
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if err := os.Chmod(private, 0o600); err != nil {
		return nil, err
	}
	file, err := os.Lstat(private)
	if err != nil {
		return nil, err
	}
	if err := os.Link(private, path); err != nil {
		return nil, err
	}
	return &unixListener{UnixListener: l, path: path, file: file}, nil
}

// clearStale removes a socket of ours that nobody listens on any more, and refuses a path at which there is anything else.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--listen", Err: err}
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != fs.ModeSocket || int(stat.Uid) != os.Geteuid() {
		e := sandbox.Invalidf("--listen", "%s is there already, and is no socket of yours", path)
		e.Fix = "choose another path, or remove it"
		return e
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // what a socket without a listener says
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "--listen", Msg: "another program listens on " + path, Fix: "stop it, or choose another path", Err: err}
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(info, now) {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "--listen", Msg: "another server took " + path + " just now", Fix: "stop it, or choose another path", Err: err}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--listen", Err: err}
	}
	return nil
}

// Addr is the path at which clients find the socket.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close ends listening and removes the socket, unless another has taken its place.
func (l *unixListener) Close() error {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
			os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}
