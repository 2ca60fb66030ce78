package packages

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// newFolder makes the folder that a sandbox has packages in.
func newFolder(t *testing.T, root, sandbox string) string {
	t.Helper()
	dir := filepath.Join(root, sandbox, "packages")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func unrecorded() error { return nil }

// TestShow: a folder gets the files of a layer and loses all others, also after a crash in between, and the cache keeps
// its own.
func TestShow(t *testing.T) {
	c, to := newCache(t), newFolder(t, t.TempDir(), "sandbox")
	p := New(Config{Dir: c.dir})
	one := map[string]string{"same": "1", "changes": "old", "dir/file": "1", "becomes": "file"}
	two := map[string]string{"same": "1", "changes": "new", "becomes/dir": "1", "dir": "file"}
	a, b := layerOf(t, c, one), layerOf(t, c, two)
	if err := p.Show(sandbox.Layer{Dir: c.tree(a)}, to, "owner", unrecorded); err != nil {
		t.Fatal(err)
	}
	// Of a crash between the two calls that replace a file.
	if err := errors.Join(os.Mkdir(workOf(to), 0o700), os.Link(filepath.Join(c.tree(a), "changes"),
		filepath.Join(workOf(to), "file"))); err != nil {
		t.Fatal(err)
	}
	if err := p.Show(sandbox.Layer{Dir: c.tree(b)}, to, "owner", unrecorded); err != nil {
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

// TestAdd: a folder keeps its files, gets those of a further layer, and loses those that are listed and in no layer,
// but nothing outside of it.
func TestAdd(t *testing.T) {
	c, to := newCache(t), newFolder(t, t.TempDir(), "sandbox")
	p := New(Config{Dir: c.dir})
	first := layerOf(t, c, map[string]string{"kept": "1", "old/a": "1", "old/b": "1", "new": "1"})
	second := layerOf(t, c, map[string]string{"new": "2", "more": "2"})
	beside := filepath.Join(filepath.Dir(to), "beside")
	if err := errors.Join(p.Show(sandbox.Layer{Dir: c.tree(first)}, to, "owner", unrecorded),
		os.WriteFile(beside, nil, 0o600),
		p.Add(sandbox.Layer{Dir: c.tree(second)}, to, "owner", []string{"old/a", "old/b", "old", "new", "kept/x",
			"none", "../beside", beside, ".", ""}, unrecorded)); err != nil {
		t.Fatal(err)
	}
	if got, want := filesOf(t, to), map[string]string{"kept": "1", "new": "2", "more": "2"}; !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := os.Stat(beside); err != nil {
		t.Error(err)
	}
	if r := readRecord(to); len(r.Layers) != 2 || !p.Linked(to) {
		t.Errorf("%+v", r)
	}
}

// TestShowNames: no name of a package's file is in the way of ours.
func TestShowNames(t *testing.T) {
	c, to := newCache(t), newFolder(t, t.TempDir(), "sandbox")
	p := New(Config{Dir: c.dir})
	for _, version := range []string{"1", "2"} {
		files := map[string]string{"a": version, "a.new/x": version, "a.new/file": version,
			strings.Repeat("n", 255): version}
		if err := p.Show(sandbox.Layer{Dir: c.tree(layerOf(t, c, files))}, to, "owner", unrecorded); err != nil {
			t.Fatal(err)
		}
		if got := filesOf(t, to); !maps.Equal(got, files) {
			t.Errorf("%q", got)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) != 2 ||
		!slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == filepath.Base(recordOf(to)) }) {
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
	whole, fails := sandbox.Layer{Dir: c.tree(layerOf(t, c, old))},
		sandbox.Layer{Dir: c.tree(layerOf(t, c, map[string]string{"a": "new", strings.Repeat("long/", 190) + "x": ""}))}
	if err := p.Show(whole, to, "owner", unrecorded); err != nil || !p.Linked(to) {
		t.Fatalf("%v", err)
	}
	if err := p.Show(fails, to, "owner", unrecorded); err == nil || p.Linked(to) {
		t.Errorf("%v, though the folder has %q", err, filesOf(t, to))
	}
	if err := p.Show(whole, to, "owner", unrecorded); err != nil || !p.Linked(to) || !maps.Equal(filesOf(t, to), old) {
		t.Errorf("%v: %q", err, filesOf(t, to))
	}
}

// TestShowQuota: packages of living sandboxes count until the sandboxes are removed, even after the cache drops their
// layers, and after a restart.
func TestShowQuota(t *testing.T) {
	c, root := newCache(t), t.TempDir()
	var p *Packager
	layer := func(name string) sandbox.Layer {
		return sandbox.Layer{Dir: c.tree(layerOf(t, c, map[string]string{name: strings.Repeat(name, 1<<20)}))}
	}
	restart := func() {
		// three layers, and one for an owner
		p = New(Config{Dir: c.dir, MaxBytes: 3<<20 + 1<<19, SeveralOwners: func() bool { return true }})
	}
	show := func(name, owner, sandboxName, quota string) {
		t.Helper()
		to := newFolder(t, root, sandboxName)
		before := filesOf(t, to)
		err := p.Show(layer(name), to, owner, unrecorded)
		if quota == "" {
			before = map[string]string{name: strings.Repeat(name, 1<<20)}
		}
		if (err != nil) != (quota != "") || err != nil &&
			(sandbox.KindOf(err) != sandbox.Quota || !strings.Contains(err.Error(), quota) ||
				sandbox.FixOf(err) == "") {
			t.Errorf("%s for %s: %v, want %q", name, sandboxName, err, quota)
		}
		if got := filesOf(t, to); !maps.Equal(got, before) || !p.Linked(to) {
			t.Errorf("%s has %d files", sandboxName, len(got))
		}
	}
	restart()
	show("a", "first", "1", "")
	show("a", "first", "2", "") // has the same
	show("b", "first", "2", "your living sandboxes")
	show("b", "second", "3", "")
	show("a", "second", "3", "") // in its place
	show("b", "second", "3", "")
	show("c", "third", "4", "")
	restart()
	show("d", "fourth", "5", "all living sandboxes")
	if removed, err := c.Prune(0); err != nil || len(removed) != 4 {
		t.Errorf("%v %v", removed, err)
	}
	show("a", "first", "2", "your living sandboxes") // installed anew
	show("a", "fourth", "5", "all living sandboxes")
	if err := os.RemoveAll(filepath.Join(root, "4")); err != nil {
		t.Fatal(err)
	}
	show("a", "fourth", "5", "")
	if err := os.Remove(recordOf(filepath.Join(root, "5", "packages"))); err != nil {
		t.Fatal(err)
	}
	show("d", "sixth", "6", "all living sandboxes") // what has no record is measured
}

// TestShowMixed: the leftovers of a failed Show count until it succeeds. Otherwise failures could fill the disk.
func TestShowMixed(t *testing.T) {
	p := New(Config{Dir: t.TempDir(), MaxBytes: 100})
	to := newFolder(t, t.TempDir(), "sandbox")
	if err := os.Mkdir(workOf(to), 0o700); err != nil {
		t.Fatal(err)
	}
	one, two := linkedLayer{ID: "1", Files: 60}, linkedLayer{ID: "2", Files: 60}
	if err := p.reserve(to, "", one, false); err != nil {
		t.Fatal(err)
	}
	if err := p.reserve(to, "", two, true); sandbox.KindOf(err) != sandbox.Quota {
		t.Errorf("%v", err)
	}
	if err := p.reserve(to, "", one, true); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := p.reserve(to, "", two, false); err != nil {
		t.Errorf("in its place: %v", err)
	}
}

// TestShowCopies: where files are copied, each sandbox has its own.
func TestShowCopies(t *testing.T) {
	c := newCache(t)
	tree := c.tree(layerOf(t, c, map[string]string{"dir/a": "1"}))
	work := filepath.Join(t.TempDir(), "work")
	linked, err := prepare(tree, work)
	const block = trees.BlockBytes
	if err != nil || linked.Files != block || linked.Own < block || linked.Own > 2*block {
		t.Errorf("%+v %v", linked, err)
	}
	other, err := os.MkdirTemp("/dev/shm", "fumehood-test-")
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	defer os.RemoveAll(other)
	if err := os.Link(filepath.Join(tree, "dir", "a"), filepath.Join(other, "a")); err == nil {
		t.Skip("SKIPPED, NOT TESTED: no other file system is known")
	}
	copied, err := prepare(tree, filepath.Join(other, "work"))
	if err != nil || copied.Files != 0 || copied.Own != linked.Own+linked.Files || copied.ID != linked.ID {
		t.Errorf("%+v %v", copied, err)
	}
}
