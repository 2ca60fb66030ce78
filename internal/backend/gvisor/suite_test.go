package gvisor

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/backend/backendtest"
	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/internal/libexec"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

// programs are found, or built, once.
var programs = sync.OnceValues(func() (*os.File, error) { return program(libexec.Guest) })

func program(find func(libexec.Options) (libexec.Program, error)) (*os.File, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	found, err := find(libexec.Options{CacheDir: filepath.Join(dir, "glovebox")})
	if err != nil {
		return nil, err
	}
	return found.Open()
}

func open(t *testing.T) sandbox.Backend { return openIn(t, filepath.Join(t.TempDir(), "run"), "") }

// openIn opens a backend in a run folder that others may share, with a step that is to fail.
func openIn(t *testing.T, run, failAt string) *Backend {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: gVisor needs root here")
	}
	guest, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Options{Guest: guest, Runsc: func() (*os.File, error) { return program(libexec.Runsc) },
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

func TestSuite(t *testing.T)   { backendtest.Run(t, open) }
func TestWalls(t *testing.T)   { backendtest.Walls(t, open) }
func TestAttacks(t *testing.T) { backendtest.Attacks(t, open) }
