package main

import (
	"bytes"
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
		kept, err := os.ReadFile(filepath.Join(root, dist, name))
		if err != nil || !bytes.Equal(kept, text) {
			t.Errorf("%s/%s does not match dashboard/src (%v); run make dashboard", dist, name, err)
		}
	}
}
