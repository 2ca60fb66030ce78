package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestDisk: a full disk and a read-only one are named, cost no record that was saved, and are over when the disk is
// free again.
func TestDisk(t *testing.T) {
	dir := folder(t)
	if err := syscall.Mount("store-test", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	path := filepath.Join(dir, "store")
	s := open(t, path)
	saved := 0
	var err error
	for err == nil && saved < 100 {
		if _, err = s.Save(sandbox.Record{ID: sandbox.NewID(), Owner: strings.Repeat("x", 10<<10)}); err == nil {
			saved++
		}
	}
	if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(sandbox.FixOf(err), "free space") || saved == 0 {
		t.Fatalf("after %d records: %v", saved, err)
	}
	got := load(t, s)
	if len(got) != saved {
		t.Errorf("%d records of %d", len(got), saved)
	}
	if err := s.Remove(got[0].ID); err != nil {
		t.Errorf("a full disk cannot be made emptier: %v", err)
	}
	if err := syscall.Mount("store-test", dir, "tmpfs", syscall.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	save(t, s, sandbox.Record{ID: sandbox.NewID(), Owner: strings.Repeat("x", 20<<10)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("store-test", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{path, path + " new"} {
		if _, err := Open(at); sandbox.KindOf(err) != sandbox.Unavailable ||
			!strings.Contains(sandbox.FixOf(err), "writable") {
			t.Errorf("%s on a read-only disk: %v", at, err)
		}
	}
	if err := syscall.Mount("store-test", dir, "tmpfs", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if got := load(t, open(t, path)); len(got) != saved {
		t.Errorf("%d records of %d", len(got), saved)
	}
	if _, err := os.Stat(path + " new"); !errors.Is(err, os.ErrNotExist) {
		t.Error("a store was made on a read-only disk")
	}
}

// TestSlowDisk: while the disk holds up one record, others are saved and removed.
func TestSlowDisk(t *testing.T) {
	path := filepath.Join(folder(t), "store")
	s := open(t, path)
	slow, other := sandbox.NewID(), sandbox.NewID()
	pipe := filepath.Join(path, string(slow)+suffix+newSuffix)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil { // to open it waits for a reader
		t.Fatal(err)
	}
	held := make(chan error)
	go func() {
		_, err := s.Save(sandbox.Record{ID: slow})
		held <- err
	}()
	time.Sleep(50 * time.Millisecond) // until it waits
	saved := make(chan error)
	go func() {
		_, err := s.Save(sandbox.Record{ID: other})
		saved <- errors.Join(err, s.Remove(other))
	}()
	select {
	case err := <-saved:
		if err != nil {
			t.Error(err)
		}
	case err := <-held:
		t.Errorf("the slow record: %v", err)
	case <-time.After(10 * time.Second):
		t.Error("another record waits")
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := <-held; err == nil { // a pipe cannot be synced
		t.Error("a record is in a pipe")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
