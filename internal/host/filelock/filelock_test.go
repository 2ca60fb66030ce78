//go:build unix

package filelock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/filelock"
)

// TestClose unlocks a file whose descriptor has a copy, as in a child between vfork and exec.
func TestClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	held, next := open(), open()
	defer next.Close()
	if err := filelock.Try(held); err != nil {
		t.Fatal(err)
	}
	child, err := unix.Dup(int(held.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	if err := filelock.Try(next); !filelock.Held(err) {
		t.Fatalf("locked twice: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := filelock.Wait(ended, next); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait for a held lock: %v", err)
	}
	if err := filelock.Close(held); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Wait(t.Context(), next); err != nil {
		t.Errorf("the lock outlives Close: %v", err)
	}
}
