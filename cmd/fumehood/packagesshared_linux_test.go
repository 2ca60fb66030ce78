package main

import (
	"path/filepath"
	"testing"

	"github.com/fumehood-dev/fumehood/test/redistest"
)

// TestPackagesShared: two machines, here two caches, install once. The second receives the layer of the first, compiled
// and complete.
func TestPackagesShared(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: package deps has the same without sandboxes")
	}
	isPackagesReady(t, pipFile)
	r := redistest.Start(t)
	i := newIndex(t)
	i.wheel("glvshared", "1.0", "value = 42", "")
	t.Setenv("FUMEHOOD_PACKAGE_SHARE", r.Address)
	t.Setenv("FUMEHOOD_PACKAGE_ARCHIVE", "file://"+filepath.Join(t.TempDir(), "archives"))
	for n, want := range []string{"note: installing glvshared\n", ""} {
		out, errs := i.run(t.TempDir(), 0, "run", "-p", "glvshared", "-c",
			"import glvshared, os; print(glvshared.value, os.path.exists(glvshared.__cached__))")
		if out != "42 True\n" || errs != want {
			t.Errorf("machine %d: %q, %q", n, out, errs)
		}
	}
	if n := i.downloads("glvshared"); n != 1 {
		t.Errorf("it was downloaded %d times", n)
	}
}
