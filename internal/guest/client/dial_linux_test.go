package client

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestDialSocket reaches the guest's socket, but not a host socket through a link in its place.
func TestDialSocket(t *testing.T) {
	folder := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(folder, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(os.Symlink("s", filepath.Join(folder, "link")),
		os.WriteFile(filepath.Join(folder, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"s": nil, "link": syscall.ENOTSOCK, "file": syscall.ENOTSOCK,
		"none": os.ErrNotExist} {
		conn, err := DialSocket(context.Background(), folder, name)
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err == nil {
			conn.Close()
		}
	}
}
