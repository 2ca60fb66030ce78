package backend

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestEveryBackendChecksItsRunFolder: each backend checks its run folder when it opens and before each use, before it
// reads, makes or removes anything. Package rundir tests the check itself.
func TestEveryBackendChecksItsRunFolder(t *testing.T) {
	top, err := os.MkdirTemp("", "planted-") // others cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	shared := filepath.Join(top, "shared")
	o := Options{Libexec: os.Getenv("FUMEHOOD_LIBEXEC"), CacheDir: t.TempDir(), RunDir: filepath.Join(shared, "run")}
	if err := errors.Join(os.Chmod(top, 0o755), os.Mkdir(shared, 0o755)); err != nil {
		t.Fatal(err)
	}
	set, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, folder := range []string{"", "gvisor", "docker", "podman"} {
		file := filepath.Join(o.RunDir, folder, "instances", "photos", "lock")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	refused := func(who string, err error) {
		t.Helper()
		if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(),
			"others may write to "+shared) ||
			sandbox.FixOf(err) == "" {
			t.Errorf("%s: %v", who, err)
		}
	}
	before := names(t, top)
	for _, b := range set.Backends {
		refused(b.Name()+": reap", b.Reap(t.Context()))
		_, err := b.Reattach(t.Context(), sandbox.NewID())
		refused(b.Name()+": reattach", err)
		if b.Name() == "docker" || b.Name() == "podman" {
			continue // which ask their engine first, where there is one
		}
		_, err = b.Create(t.Context(), sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits,
			User: sandbox.DefaultUser})
		refused(b.Name()+": create", err)
	}
	_, err = Open(o)
	refused("open", err)
	if after := names(t, top); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// names lists everything in a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}
