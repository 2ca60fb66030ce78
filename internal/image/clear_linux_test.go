package image

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestClearLarge: a folder with more entries than are read at once loses all but those of the layer that clears it.
func TestClearLarge(t *testing.T) {
	s := openStore(t)
	var below []entry
	for n := range 2000 {
		below = append(below, entry{0, "d/old" + strconv.Itoa(n) + "/f", "", 0o644})
	}
	i, err := s.add(t.Context(), source{name: "a", image: imageOf(t, layerOf(t, below...),
		layerOf(t, entry{tar.TypeDir, "d/", "", 0o755}, entry{0, "d/new/new", "", 0o644},
			entry{0, "d/" + opaque, "", 0o644}))})
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(s.Files(i.Tree), "d", "*", "*"))
	if err != nil || len(found) != 1 || filepath.Base(found[0]) != "new" {
		t.Errorf("%d files are left, %v", len(found), err)
	}
	if entries, err := os.ReadDir(filepath.Join(s.Files(i.Tree), "d")); err != nil || len(entries) != 1 {
		t.Errorf("%d folders are left, %v", len(entries), err)
	}
}
