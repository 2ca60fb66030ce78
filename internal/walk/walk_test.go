package walk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/fumehood-dev/fumehood/internal/walk"
)

// TestDir: each file is visited once, below its folder, except those of skipped folders. An error ends the walk.
func TestDir(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var want []string
	for i := range 600 {
		want = append(want, fmt.Sprintf("wide/%d", i))
	}
	want = append(want, "wide", "a", "a/b", "a/b/c", "skipped")
	for _, dir := range []string{"wide", "a/b", "skipped/x"} {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append(want[:600:600], "a/b/c", "skipped/x/y") {
		if err := root.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	visit := func(name string, e fs.DirEntry) error {
		if _, err := e.Info(); err != nil {
			return err
		}
		if got = append(got, name); name == "skipped" {
			return fs.SkipDir
		}
		return nil
	}
	if err := walk.Dir(root.FS(), ".", visit); err != nil {
		t.Fatal(err)
	}
	if slices.Index(got, "a") > slices.Index(got, "a/b") || slices.Index(got, "a/b") > slices.Index(got, "a/b/c") {
		t.Errorf("a folder comes after its files: %q", got)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	end := errors.New("end")
	for _, at := range []string{"a", "a/b/c"} {
		calls := 0
		err := walk.Dir(fstest.MapFS{"a/b/c": {}, "a/b/d": {}}, ".", func(name string, _ fs.DirEntry) error {
			if calls++; name == at {
				return end
			}
			return nil
		})
		if !errors.Is(err, end) || calls > 3 {
			t.Errorf("%s: %v after %d calls", at, err, calls)
		}
	}
	if err := walk.Dir(fstest.MapFS{}, "none", visit); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
