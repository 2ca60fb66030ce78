package image

import (
	"archive/tar"
	"errors"
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

// TestPrune: the least recently used images go first, and none in use. A new image makes room for itself.
func TestPrune(t *testing.T) {
	s := openStore(t)
	try := func(name string) (Image, error) {
		layer := layerOf(t, entry{0, name, strings.Repeat(name, 100), 0o644})
		return s.add(t.Context(), source{name: name, image: imageOf(t, layer)})
	}
	add := func(name string) Image {
		i, err := try(name)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	names := func() (list []string) {
		all, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range all {
			list = append(list, i.Name)
		}
		return list
	}
	age := func(i Image, hours time.Duration) {
		at := time.Now().Add(-hours * time.Hour)
		if err := os.Chtimes(filepath.Join(filepath.Dir(s.trees.Files(i.Tree)), "used"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	var images []Image
	for n := range 4 {
		images = append(images, add(strconv.Itoa(n)))
	}
	for n, hours := range []time.Duration{3, 5, 4, 2} {
		age(images[n], hours)
	}
	_, release, err := s.Hold(images[1])
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	age(images[1], 5)
	gone, bytes, err := s.Prune(2 * trees.BlockBytes)
	if want := []string{"2", "0"}; err != nil || !slices.Equal(gone, want) || bytes != 2*trees.BlockBytes {
		t.Errorf("%q, %d, %v", gone, bytes, err)
	}
	if got := names(); !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("left %q", got)
	}
	s.Bound(2*trees.BlockBytes + 100)
	add("4") // 3 makes room: 1 is in use
	if got := names(); !slices.Equal(got, []string{"1", "4"}) {
		t.Errorf("left %q", got)
	}
	if err := os.Remove(s.nameFile("4")); err != nil {
		t.Fatal(err)
	}
	digests, err := s.trees.Digests()
	if err != nil {
		t.Fatal(err)
	}
	orphan := images[3] // its tree has no name
	for _, digest := range digests {
		if digest != images[1].Tree {
			orphan.Tree = digest
		}
	}
	for _, hours := range []time.Duration{0, 2} {
		age(orphan, hours)
		if _, _, err := s.Prune(1 << 20); err != nil || s.trees.Has(orphan.Tree) != (hours == 0) {
			t.Errorf("an orphan of %d hours: %v", hours, err)
		}
	}
	s.Bound(trees.BlockBytes / 2)
	if _, err := try("5"); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("an image over the bound of the store: %v", err)
	}
}

// TestDamagedRecords: an image whose record or tree's record is damaged counts as missing. The next one of its name
// replaces it, and prune removes what is left of it.
func TestDamagedRecords(t *testing.T) {
	s := openStore(t)
	layer := layerOf(t, entry{0, "a", "text", 0o644})
	add := func() Image {
		t.Helper()
		i, err := s.add(t.Context(), source{name: "docker.io/library/a:latest", image: imageOf(t, layer)})
		if err == nil {
			_, err = s.Find("a")
		}
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	i := add()
	treeRecord := filepath.Join(filepath.Dir(s.trees.Files(i.Tree)), "record.json")
	for _, file := range []string{treeRecord, s.nameFile(i.Name)} {
		for _, text := range []string{"", `{"name": `, "\x00\x00"} {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Find("a"); sandbox.KindOf(err) != sandbox.NotFound {
				t.Errorf("with %q in %s: %v", text, file, err)
			}
			if err := s.CheckName("a", "alice"); err != nil {
				t.Error(err)
			}
			add()
		}
	}
	if err := os.Truncate(treeRecord, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Prune(DefaultMaxBytes); err != nil {
		t.Error(err)
	}
	if left, err := s.trees.Digests(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestRootsOpenAgain: a store that could not be opened is opened by the next use, and once.
func TestRootsOpenAgain(t *testing.T) {
	s, opened := openStore(t), 0
	roots := Roots{Open: func() (*Store, error) {
		if opened++; opened == 1 {
			return nil, errors.New("the disk is full")
		}
		return s, nil
	}}
	for range 3 {
		_, _ = roots.Find(t.Context(), "none", nil)
	}
	if _, err := roots.Find(t.Context(), "none", nil); sandbox.KindOf(err) != sandbox.NotFound || opened != 2 {
		t.Errorf("%v, opened %d times", err, opened)
	}
}

// TestDraftsCount: images that are being unpacked count as those that are there.
func TestDraftsCount(t *testing.T) {
	s := openStore(t)
	s.Bound(1 << 20)
	add := func() error {
		layer := layerOf(t, entry{0, "a", strings.Repeat("a", 300<<10), 0o644})
		_, err := s.add(t.Context(), source{name: "a", image: imageOf(t, layer)})
		return err
	}
	if err := s.reserve(900 << 10); err != nil {
		t.Fatal(err)
	}
	if err := add(); sandbox.KindOf(err) != sandbox.Busy {
		t.Errorf("beside another one: %v", err)
	}
	s.unreserve(900 << 10)
	if err := add(); err != nil || s.drafted != 0 {
		t.Errorf("alone: %v; %d bytes are reserved", err, s.drafted)
	}
}

// TestTemplateRecords: List decodes no configuration. The records of templates and their number are bounded.
func TestTemplateRecords(t *testing.T) {
	s := openStore(t)
	s.Space, s.Limits.Templates = 800<<10, 3 // 400 KiB for one key
	base, err := s.add(t.Context(), source{name: "base", image: imageOf(t, layerOf(t, entry{0, "a", "a", 0o644}))})
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, size int) (Image, error) {
		return s.Put(name, "key", base.Tree, Config{Env: []string{"A=" + strings.Repeat("x", size)}})
	}
	made, err := put("a:1", 250<<10)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a:1", "a@" + made.Digest} {
		if i, err := s.Find(name); err != nil || len(i.Config.Env) != 1 {
			t.Errorf("%s has no configuration: %v", name, err)
		}
	}
	list, err := s.List()
	if err != nil || len(list) != 2 || list[1].Config.Env != nil {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := put("b:1", 200<<10); sandbox.KindOf(err) != sandbox.Quota {
		t.Errorf("records of more than 400 KiB: %v", err)
	}
	long := Config{Dir: strings.Repeat("x", maxConfig)} // each request would decode it
	if _, err := s.Put("b:1", "", base.Tree, long); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("a long configuration: %v", err)
	}
	for n, name := range []string{"b:1", "c:1", "c:1", "d:1"} {
		if _, err := put(name, 1); (sandbox.KindOf(err) == sandbox.Quota) != (n == 3) {
			t.Errorf("template %s: %v", name, err)
		}
	}
	made.Config.Env = []string{"A=1"} // a record of an earlier version
	if err := writeRecord(s.nameFile(made.Name), made); err != nil {
		t.Fatal(err)
	}
	if i, err := s.Find("a:1"); err != nil || len(i.Config.Env) != 1 {
		t.Errorf("%+v, %v", i, err)
	}
}

// TestEntriesTakeSpace: entries without content take space.
func TestEntriesTakeSpace(t *testing.T) {
	var entries []entry
	for n := range 50 {
		name := strconv.Itoa(n)
		entries = append(entries, entry{tar.TypeDir, "d" + name, "", 0o755}, entry{0, "f" + name, "x", 0o644},
			entry{tar.TypeSymlink, "s" + name, "x", 0}, entry{tar.TypeLink, "h" + name, "f0", 0})
	}
	s := openStore(t)
	i, err := s.add(t.Context(), source{name: "a", image: imageOf(t, layerOf(t, entries...))})
	want := int64(len(entries)-1) * trees.BlockBytes
	if err != nil || i.Bytes < want || i.Bytes > want+2*trees.BlockBytes {
		t.Fatalf("%d bytes, expected %d; %v", i.Bytes, want, err)
	}
	s.Space = 60 * trees.BlockBytes
	content, err := layerOf(t, entry{tar.TypeDir, "x", "", 0o755}).Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Derive(t.Context(), Layer{Parent: i.Tree, Content: content}) // it copies 50 folders
	if err != nil {
		t.Fatal(err)
	}
	if content, err = layerOf(t, entries[:40]...).Uncompressed(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Derive(t.Context(), Layer{Content: content}); sandbox.KindOf(err) != sandbox.Quota {
		t.Errorf("beside %s: %v", tree, err)
	}
}
