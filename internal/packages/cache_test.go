package packages

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func newCache(t *testing.T) *Cache {
	t.Helper()
	c, err := OpenCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func draftOf(t *testing.T, c *Cache, files map[string]string) *draft {
	t.Helper()
	d, err := c.newDraft()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := d.add(sandbox.FileInfo{Path: name}, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func layerOf(t *testing.T, c *Cache, files map[string]string) string {
	t.Helper()
	digest, err := draftOf(t, c, files).publish(Layer{At: "/at"})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// filesOf lists the regular files of a folder with their contents.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(filepath.Join(dir, name))
			files[name] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestPrune: layers that are in use stay, the least recently used of the others go first, and a layer that went is not
// found.
func TestPrune(t *testing.T) {
	c := newCache(t)
	a, b := layerOf(t, c, map[string]string{"a": "1"}), layerOf(t, c, map[string]string{"b": "1", "empty": ""})
	release, err := c.trees.Hold(a)
	if err != nil {
		t.Fatal(err)
	}
	if removed, err := c.Prune(0); err != nil || len(removed) != 1 || removed[0].Digest != b ||
		removed[0].Bytes != 3*trees.BlockBytes { // two files and the record
		t.Errorf("%+v %v", removed, err)
	}
	if _, err := c.trees.Hold(b); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	release()
	b = layerOf(t, c, map[string]string{"b": "1"})
	now := time.Now()
	for digest, used := range map[string]time.Time{a: now.Add(-time.Minute), b: now.Add(-time.Hour)} {
		if err := os.Chtimes(filepath.Join(filepath.Dir(c.tree(digest)), "used"), used, used); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := c.Prune(2 * trees.BlockBytes); err != nil || len(removed) != 1 || removed[0].Digest != b {
		t.Errorf("%+v %v", removed, err)
	}
	if list, err := c.List(); err != nil || len(list) != 1 || list[0].Hits != 0 {
		t.Errorf("%+v %v", list, err)
	}
}

// TestForeignLink: a link of another user leads to no cache.
func TestForeignLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, 65534, 65534); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	if _, err := OpenCache(link); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("%v", err)
	}
}

// TestDigest: it covers paths, contents, permission to execute and place, and not the order.
func TestDigest(t *testing.T) {
	c := newCache(t)
	digest := func(at string, mode uint32, files ...string) string {
		d := draftOf(t, c, nil)
		defer d.discard()
		for _, f := range files {
			name, text, _ := strings.Cut(f, "=")
			if err := d.add(sandbox.FileInfo{Path: name, Mode: mode}, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		return d.digest(at)
	}
	first := digest("/at", 0o644, "a=1", "b=2")
	if same := digest("/at", 0o4600, "b=2", "a=1"); same != first {
		t.Error("the order, or a mode that is not kept, matters")
	}
	seen := map[string]bool{first: true}
	for i, other := range []string{digest("/", 0o644, "a=1", "b=2"), digest("/at", 0o755, "a=1", "b=2"),
		digest("/at", 0o644, "a=2", "b=2"), digest("/at", 0o644, "c=1", "b=2"), digest("/at", 0o644, "a=1")} {
		if seen[other] {
			t.Errorf("%d is equal", i)
		}
		seen[other] = true
	}
}

// TestAddHostile: nothing is written outside of the draft, twice, or with other rights than a plain file's.
func TestAddHostile(t *testing.T) {
	d := draftOf(t, newCache(t), map[string]string{"file": "1"})
	defer d.discard()
	if err := os.Symlink("/", filepath.Join(d.Files(), "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "/x", "..", "../x", "a/../../x", "a/../b", "a//b", "a/", "./a", "a\x00b",
		"file", "file/x", "link/tmp/x", strings.Repeat("a/", maxPath/2) + "b"} {
		if err := d.add(sandbox.FileInfo{Path: name}, strings.NewReader("hostile")); err == nil {
			t.Errorf("%.40q was added", name)
		}
	}
	if err := d.add(sandbox.FileInfo{Path: "suid", Mode: 0o7777}, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(filepath.Join(d.Files(), "suid")); err != nil || info.Mode() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
	for i := range maxLayerFiles - len(d.made) {
		d.made[strconv.Itoa(i)] = true
	}
	if err := d.add(sandbox.FileInfo{Path: "one/more"},
		strings.NewReader("")); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("%d folders: %v", len(d.made), err)
	}
	if d.paths == 0 {
		t.Error("paths of files are not counted")
	}
	d.paths = maxLayerPaths - 3
	if err := d.add(sandbox.FileInfo{Path: "file"},
		strings.NewReader("")); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("long paths: %v", err)
	}
}

// TestForgetOld: records are kept within their limits of age and size; leftovers of crashes are kept for an hour.
func TestForgetOld(t *testing.T) {
	c := newCache(t)
	for name, age := range map[string]time.Duration{"new.json": 0, "big.json": time.Minute, "small.json": time.Hour,
		"old.json": keepKeys + time.Hour, "new-1": time.Minute,
		"new-2": 2 * time.Hour, "a.lock": time.Minute, "b.lock": 2 * time.Hour} {
		at := time.Now().Add(-age)
		err := os.WriteFile(c.request(name), nil, 0o600)
		if name == "big.json" {
			err = os.Truncate(c.request(name), maxKeyBytes+1)
		}
		if err = errors.Join(err, os.Chtimes(c.request(name), at, at)); err != nil {
			t.Fatal(err)
		}
	}
	c.forgetOld()
	if got := slices.Sorted(maps.Keys(filesOf(t, c.request("")))); !slices.Equal(got,
		[]string{"a.lock", "new-1", "new.json"}) {
		t.Errorf("%q", got)
	}
}

// TestUsedAnswersStay: of the answers to keys, those that nobody uses go first.
func TestUsedAnswersStay(t *testing.T) {
	c := newCache(t)
	old := time.Now().Add(-2 * keepKeys)
	for _, key := range []string{"used", "unused"} {
		if err := errors.Join(c.remember(key, answer{Made: time.Now()}),
			os.Chtimes(c.request(key+".json"), old, old)); err != nil {
			t.Fatal(err)
		}
	}
	c.find("used", time.Hour)
	c.forgetOld()
	_, used := c.find("used", time.Hour)
	_, unused := c.find("unused", time.Hour)
	if !used || unused {
		t.Errorf("a used answer is there: %v, an unused one: %v", used, unused)
	}
}

// TestSizesOnce: Prune reads the record of a layer once.
func TestSizesOnce(t *testing.T) {
	c := newCache(t)
	digest := layerOf(t, c, map[string]string{"a": "a"})
	bytes, _, err := c.size(digest)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(c.tree(digest)), "record.json")
	info, err := os.Stat(file)
	if err == nil {
		err = errors.Join(os.WriteFile(file, make([]byte, info.Size()), 0o644),
			os.Chtimes(file, info.ModTime(), info.ModTime()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := c.size(digest); err != nil || again != bytes {
		t.Errorf("%d bytes, then %d: %v", bytes, again, err)
	}
}
