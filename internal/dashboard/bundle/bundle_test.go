package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestPagesAreCurrent compares the kept scripts with their sources.
func TestPagesAreCurrent(t *testing.T) {
	const root = "../../.."
	files, err := pages(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		kept, err := os.ReadFile(filepath.Join(root, dist, name+".gz"))
		var plain []byte // another version of Go may compress otherwise
		if err == nil {
			var r *gzip.Reader
			if r, err = gzip.NewReader(bytes.NewReader(kept)); err == nil {
				plain, err = io.ReadAll(r)
			}
		}
		if err != nil || !bytes.Equal(plain, text) {
			t.Errorf("%s/%s does not match dashboard/src (%v); run make dashboard", dist, name, err)
		}
	}
}
