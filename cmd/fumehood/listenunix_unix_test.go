//go:build unix

package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServeOnSocket: a server on a Unix socket serves runs. Only the owner can open the socket, a second server refuses
// it, and the server removes it. A server replaces the socket of a killed one.
func TestServeOnSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "fhx") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()

	defer syscall.Umask(syscall.Umask(0)) // which is no guard of a socket here
	s := startServer(t, "--listen", "unix:"+path)
	if s.url != "unix:"+path {
		t.Errorf("it listens on %s", s.url)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("beside it are %v", left)
	}
	if _, err := listen("unix:"+path, nil); err == nil || !strings.Contains(err.Error(), "another program listens") {
		t.Errorf("a second server: %v", err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	s.client.Transport, s.url = transport, "http://localhost" // as with curl --unix-socket PATH http://localhost/v1/run
	if code, answer := s.post(t, "/v1/run", `{"language":"bash","code":"echo in",`+weaker+`}`); code != http.StatusOK ||
		answer["stdout"] != "in\n" {
		t.Errorf("%d %v", code, answer)
	}
	s.interrupt()
	gone := func() bool {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	for end := time.Now().Add(stepTimeout); !gone(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the socket stays when its server ends")
		}
	}
}
