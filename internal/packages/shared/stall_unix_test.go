//go:build unix

package shared_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/test/redistest"
)

// TestStalledArchive: an archive that cannot be read on is given up, though its driver is blocked in a system call.
func TestStalledArchive(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: waits for as long as a run would")
	}
	r, dir := redistest.Start(t), t.TempDir()
	s := open(t, r.Address, dir)
	path := filepath.Join(dir, newMachine(t, s).supply(pack, 1)+".tar.gz")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newMachine(t, s)
	b.supply(pack, 1)
	if log := b.log.String(); !strings.Contains(log, "no data moved for") {
		t.Errorf("the log has:\n%s", log)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0) // the driver goes on, and finds that nobody waits
	if err != nil {
		t.Fatal(err)
	}
	pipe.Close()
}
