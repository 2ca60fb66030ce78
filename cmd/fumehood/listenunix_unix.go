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

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// unixListener is a socket in the file system. Close removes it.
type unixListener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
	once sync.Once
}

// listenUnix makes a socket that only its owner can connect to. The path must be free, or a stale socket of this user.
//
// It makes the socket in a private folder, sets the mode, and links it to its path. So the socket is never open to
// others, without a change of the umask, which all threads share; and the link replaces nothing.
func listenUnix(path string) (net.Listener, error) {
	if err := clearStale(path); err != nil {
		return nil, err
	}
	l, err := bindPrivately(path)
	if err != nil {
		e := &sandbox.Error{Kind: sandbox.Unavailable, Op: "--listen", Err: err}
		if errors.Is(err, syscall.EINVAL) {
			e.Fix = "choose a path of at most 80 characters"
		}
		return nil, e
	}
	return l, nil
}

func bindPrivately(path string) (_ *unixListener, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".fhx") // of mode 0700
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

// clearStale removes a stale socket of this user, and refuses any other file.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return hostfiles.Error("--listen", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != fs.ModeSocket || int(stat.Uid) != os.Geteuid() {
		return invalid("--listen", path+" exists already, and is not a socket of yours",
			"choose another path, or remove it")
	}
	conn, err := net.Dial("unix", path)
	var dead bool
	if err == nil {
		dead = listenerIsDead(conn)
		conn.Close()
	}
	if !dead && !errors.Is(err, syscall.ECONNREFUSED) { // a socket without a listener
		return &sandbox.Error{Kind: sandbox.Busy, Op: "--listen", Msg: "another program listens on " + path,
			Fix: "stop it, or choose another path", Err: err}
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(info, now) {
		return &sandbox.Error{Kind: sandbox.Busy, Op: "--listen", Msg: "another server just took " + path,
			Fix: "stop it, or choose another path", Err: err}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return hostfiles.Error("--listen", err)
	}
	return nil
}

func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close stops listening and removes the socket, unless another has replaced it.
func (l *unixListener) Close() error {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
			os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}
