package gvisor_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/backend/backendtest"
	"github.com/glovebox-dev/glovebox/internal/backend/gvisor"
	"github.com/glovebox-dev/glovebox/internal/libexec"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func open(t *testing.T) sandbox.Backend {
	program, err := libexec.Guest(libexec.Options{CacheDir: "/tmp/gvt/cache"})
	if err != nil {
		t.Fatal(err)
	}
	guest, err := program.Open()
	if err != nil {
		t.Fatal(err)
	}
	b, err := gvisor.New(gvisor.Options{Guest: guest, Runsc: func() (*os.File, error) { return os.Open("/tmp/runsc") },
		RunDir: filepath.Join(t.TempDir(), "run"), Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Probe(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestSuite(t *testing.T) { backendtest.Run(t, open) }
func TestWalls(t *testing.T) { backendtest.Walls(t, open) }
