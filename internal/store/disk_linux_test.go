package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
		if err = s.Save(sandbox.Record{ID: sandbox.NewID(), Owner: strings.Repeat("x", 10<<10)}); err == nil {
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
