//go:build linux

package backendtest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/backend/native"
	"github.com/fumehood-dev/fumehood/internal/lang/bash"
	"github.com/fumehood-dev/fumehood/internal/lang/javascript"
	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestAttackControls(t *testing.T) { backendtest.AttackControls(t) }

func TestNativeAttacks(t *testing.T) { backendtest.Attacks(t, openNative, backendtest.AttackWorkers) }

func TestNativeAttacksForked(t *testing.T) { backendtest.AttacksForked(t, openNative, python.Language) }

func TestNativeAttacksInContexts(t *testing.T) {
	backendtest.AttacksInContexts(t, openNative, python.Language, javascript.Language, bash.Language)
}

func openNative(t *testing.T) sandbox.Backend {
	guest, err := backendtest.Guest()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guest.Close() })
	b, err := native.New(native.Options{Guest: guest, RunDir: filepath.Join(t.TempDir(), "run"),
		GuestStderr: os.Stderr})
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
