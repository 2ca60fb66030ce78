package image

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestManyNames: a layer can be made above a file that has as many names as the file system allows, 65,000 on ext4.
func TestManyNames(t *testing.T) {
	s := openStore(t)
	archive := func(names int) *bytes.Buffer {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		h := &tar.Header{Name: "0", Typeflag: tar.TypeReg, Mode: 0o644}
		for n := range names {
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			h = &tar.Header{Name: strconv.Itoa(n + 1), Typeflag: tar.TypeLink, Linkname: "0"}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	const names = 33_000
	base, err := s.Derive(t.Context(), Layer{Content: archive(names)})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Derive(t.Context(), Layer{Parent: base, Content: archive(0)})
	if err != nil {
		t.Fatal(err)
	}
	stat := func(n int) os.FileInfo {
		info, err := os.Stat(filepath.Join(s.Files(tree), strconv.Itoa(n)))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	files := []os.FileInfo{stat(0)}
	for n := range names {
		if info := stat(n); !os.SameFile(info, files[0]) && !os.SameFile(info, files[len(files)-1]) {
			files = append(files, info)
		}
	}
	if len(files) > 2 {
		t.Errorf("%d copies", len(files))
	}
}
