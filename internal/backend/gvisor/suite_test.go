package gvisor

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/lang/bash"
	"github.com/fumehood-dev/fumehood/internal/lang/javascript"
	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

func open(t *testing.T) sandbox.Backend { return openIn(t, filepath.Join(t.TempDir(), "run"), "") }

// guestProgram is the guest until the end of the test.
func guestProgram(t testing.TB) *os.File {
	t.Helper()
	f, err := backendtest.Guest()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// openIn opens a backend in a run folder that others may share, with a step to fail.
func openIn(t testing.TB, run, failAt string) *Backend {
	t.Helper()
	b, err := New(Options{Guest: guestProgram(t), Runsc: backendtest.Runsc, RunDir: run,
		HostIDs: filepath.Join(filepath.Dir(run), hostid.File), Stderr: os.Stderr, FailAt: failAt})
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

// whole opens a backend, on a host that can enforce all limits.
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

func TestSuite(t *testing.T) {
	if testing.Short() {
		backendtest.Core(t, whole)
		return
	}
	backendtest.Run(t, whole)
}

func TestWalls(t *testing.T) {
	backendtest.ForCheck(t, "the core of the suite has the walls that matter most")
	backendtest.Walls(t, whole)
}

func TestMatrix(t *testing.T) {
	backendtest.ForCheck(t, "a sandbox for each variant of the filter")
	backendtest.Matrix(t, whole)
}

// TestAttacks runs the attack corpus.
func TestAttacks(t *testing.T) {
	if testing.Short() {
		backendtest.AttackSample(t, usable)
		return
	}
	backendtest.Attacks(t, usable, backendtest.AttackWorkers)
}

func TestAttacksInContexts(t *testing.T) {
	backendtest.ForCheck(t, "a kernel for each of many attacks; native runs them for every change")
	backendtest.AttacksInContexts(t, usable, python.Language, javascript.Language, bash.Language)
}

// usable opens a backend. For an ordinary user its sandboxes have only the enforceable limits.
func usable(t *testing.T) sandbox.Backend {
	b := open(t)
	if _, err := b.Probe(context.Background()); err != nil {
		backendtest.Skip(t, Name, err)
	}
	return b
}
