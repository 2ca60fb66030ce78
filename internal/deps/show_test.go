package deps

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestShow: a folder gets what a layer has and loses all else, also after a crash in the middle, and the cache keeps its files.
func TestShow(t *testing.T) {
	c, to := newCache(t), t.TempDir()
	p := New(Config{Dir: c.dir})
	one := map[string]string{"same": "1", "changes": "old", "dir/file": "1", "becomes": "file"}
	two := map[string]string{"same": "1", "changes": "new", "becomes/dir": "1", "dir": "file"}
	a, b := layerOf(t, c, one), layerOf(t, c, two)
	if err := p.Show(sandbox.Layer{Dir: c.tree(a)}, to); err != nil {
		t.Fatal(err)
	}
	// Of a crash between the two calls that replace a file.
	if err := errors.Join(os.Mkdir(workOf(to), 0o700), os.Link(filepath.Join(c.tree(a), "changes"), filepath.Join(workOf(to), "file"))); err != nil {
		t.Fatal(err)
	}
	if err := p.Show(sandbox.Layer{Dir: c.tree(b)}, to); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]map[string]string{to: two, c.tree(a): one, c.tree(b): two} {
		if got := filesOf(t, dir); !maps.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := copyFile(filepath.Join(c.tree(a), "same"), copied); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode() != 0o644 || info.Size() != 1 {
		t.Errorf("%v %v", info, err)
	}
}

// TestShowNames: no name of a package's file is in the way of ours.
func TestShowNames(t *testing.T) {
	c, to := newCache(t), filepath.Join(t.TempDir(), "to")
	p := New(Config{Dir: c.dir})
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1", "2"} {
		files := map[string]string{"a": version, "a.new/x": version, "a.new/file": version, strings.Repeat("n", 255): version}
		if err := p.Show(sandbox.Layer{Dir: c.tree(layerOf(t, c, files))}, to); err != nil {
			t.Fatal(err)
		}
		if got := filesOf(t, to); !maps.Equal(got, files) {
			t.Errorf("%q", got)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) != 1 {
		t.Errorf("left beside it: %v %v", left, err)
	}
}

// TestShowFails: a folder with a mixture is known, and the next Show makes it whole.
func TestShowFails(t *testing.T) {
	c := newCache(t)
	p := New(Config{Dir: c.dir})
	to := t.TempDir()
	for len(to) < 3500 { // in here, a long path is longer than any may be
		to = filepath.Join(to, strings.Repeat("d", 200))
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	old := map[string]string{"a": "old", "b": "old"}
	whole, fails := sandbox.Layer{Dir: c.tree(layerOf(t, c, old))}, sandbox.Layer{Dir: c.tree(layerOf(t, c, map[string]string{"a": "new", strings.Repeat("long/", 190) + "x": ""}))}
	if err := p.Show(whole, to); err != nil || !p.Shown(to) {
		t.Fatalf("%v", err)
	}
	if err := p.Show(fails, to); err == nil || p.Shown(to) {
		t.Errorf("%v, though the folder has %q", err, filesOf(t, to))
	}
	if err := p.Show(whole, to); err != nil || !p.Shown(to) || !maps.Equal(filesOf(t, to), old) {
		t.Errorf("%v: %q", err, filesOf(t, to))
	}
}
