package gvisor

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/backend/backendtest"
	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/internal/libexec"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

// The programs are found, or built, once.
var (
	guestFound = sync.OnceValues(func() (*os.File, error) { return program(libexec.Guest) })
	runscFound = sync.OnceValues(func() (*os.File, error) { return program(libexec.Runsc) })
)

func program(find func(libexec.Options) (libexec.Program, error)) (*os.File, error) {
	dir, err := os.MkdirTemp("", "glovebox-programs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	found, err := find(libexec.Options{Dir: os.Getenv("GLOVEBOX_LIBEXEC"), CacheDir: dir})
	if err != nil {
		return nil, err
	}
	return found.Open()
}

func open(t *testing.T) sandbox.Backend { return openIn(t, filepath.Join(t.TempDir(), "run"), "") }

// openIn opens a backend in a run folder that others may share, with a step that is to fail.
func openIn(t testing.TB, run, failAt string) *Backend {
	t.Helper()
	guest, err := guestFound()
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Options{Guest: guest, Runsc: func() (*os.File, error) {
		program, err := runscFound()
		if err != nil {
			return nil, err
		}
		fd, err := unix.FcntlInt(program.Fd(), unix.F_DUPFD_CLOEXEC, 0) // the backend closes its own
		return os.NewFile(uintptr(fd), "runsc"), err
	},
		RunDir: run, HostIDs: filepath.Join(filepath.Dir(run), hostid.File), Stderr: os.Stderr, FailAt: failAt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// whole opens a backend on a host that can enforce all limits.
func whole(t *testing.T) sandbox.Backend {
	t.Helper()
	b := open(t)
	switch posture, err := b.Probe(context.Background()); {
	case err != nil:
		backendtest.Skip(t, Name, err)
	case !posture.Ready:
		backendtest.Skip(t, "limits", "nothing enforces a limit of memory")
	}
	return b
}

func TestSuite(t *testing.T)  { backendtest.Run(t, whole) }
func TestWalls(t *testing.T)  { backendtest.Walls(t, whole) }
func TestMatrix(t *testing.T) { backendtest.Matrix(t, whole) }

// TestAttacks runs the attack corpus. An ordinary user's sandboxes are attacked with what limits there are.
func TestAttacks(t *testing.T) {
	backendtest.Attacks(t, func(t *testing.T) sandbox.Backend {
		b := open(t)
		if _, err := b.Probe(context.Background()); err != nil {
			backendtest.Skip(t, Name, err)
		}
		return b
	})
}
