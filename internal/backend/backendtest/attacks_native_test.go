//go:build linux

package backendtest_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/backend/backendtest"
	"github.com/glovebox-dev/glovebox/internal/backend/native"
	"github.com/glovebox-dev/glovebox/internal/lang/python"
	"github.com/glovebox-dev/glovebox/internal/libexec"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// guestProgram is built once and sealed, where GLOVEBOX_TEST_GUEST does not name one, as on a machine without a compiler.
var guestProgram = sync.OnceValues(func() (*os.File, error) {
	if path := os.Getenv("GLOVEBOX_TEST_GUEST"); path != "" {
		return os.Open(path)
	}
	dir, err := os.MkdirTemp("", "glovebox-guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, err := libexec.Guest(libexec.Options{CacheDir: dir})
	if err != nil {
		return nil, err
	}
	return program.Open()
})

func TestAttackControls(t *testing.T) { backendtest.AttackControls(t) }

func TestNativeAttacks(t *testing.T) { backendtest.Attacks(t, openNative) }

func TestNativeAttacksForked(t *testing.T) { backendtest.AttacksForked(t, openNative, python.Language) }

func openNative(t *testing.T) sandbox.Backend {
	guest, err := guestProgram()
	if err != nil {
		t.Fatal(err)
	}
	b, err := native.New(native.Options{Guest: guest, RunDir: filepath.Join(t.TempDir(), "run"), GuestStderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Probe(context.Background()); err != nil {
		backendtest.Skip(t, native.Name, err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}
