package image

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/trees"
)

func listed(t *testing.T, s *Store) []Image {
	t.Helper()
	images, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	return images
}

// TestSharedFiles: files that templates share with the tree below them count once, and as long as one of them exists.
func TestSharedFiles(t *testing.T) {
	s := openStore(t)
	s.Bound(60 * trees.BlockBytes)
	derive := func(owner, parent, name string, blocks int) string {
		t.Helper()
		r, err := layerOf(t, entry{0, name, strings.Repeat("x", blocks*trees.BlockBytes), 0o644}).Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		tree, err := s.Derive(t.Context(), Layer{Parent: parent, Owner: owner, Content: r})
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	put := func(name, owner, tree string) {
		t.Helper()
		if _, err := s.Put(name, owner, tree, Config{}); err != nil {
			t.Fatal(err)
		}
	}
	put("bob1", "bob", derive("bob", "", "bob1", 1))
	large := derive("alice", "", "large", 10)
	put("large", "alice", large)
	for n := range 4 {
		name := "alice" + strconv.Itoa(n)
		tree := derive("alice", large, name, 1)
		put(name, "alice", tree)
		_, release, err := s.HoldTree(tree) // as a sandbox does
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	put("bob2", "bob", derive("bob", "", "bob2", 1))
	if _, err := s.Find("bob1"); err != nil {
		t.Errorf("another key's templates made room for shared files: %v", err)
	}
	if err := s.Remove("large"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Prune(0); err != nil {
		t.Fatal(err)
	}
	s.Space = 100 * trees.BlockBytes
	before, _, err := s.left(listed(t, s), "alice", 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		if i, err := s.Find("alice" + strconv.Itoa(n)); err != nil || i.Tree == "" {
			t.Error("a template in use is gone", err)
		}
	}
	if used := 50*trees.BlockBytes - before; used < 14*trees.BlockBytes {
		t.Errorf("%d blocks count, and templates have the files of a removed one", used/trees.BlockBytes)
	}
}

// deriveFrom makes a tree of alice's with a layer of some entries.
func deriveFrom(t *testing.T, s *Store, parent string, entries ...entry) string {
	t.Helper()
	r, err := layerOf(t, entries...).Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tree, err := s.Derive(t.Context(), Layer{Parent: parent, Owner: "alice", Content: r})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestEmptyLayers: a layer without content counts as the owner's, and as its folders and its record only.
func TestEmptyLayers(t *testing.T) {
	s := openStore(t)
	s.Space = 200 * trees.BlockBytes
	tree := deriveFrom(t, s, "", entry{0, "large", strings.Repeat("x", 50*trees.BlockBytes), 0o644})
	before, _, err := s.left(listed(t, s), "alice", 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		tree = deriveFrom(t, s, tree)
	}
	left, _, err := s.left(listed(t, s), "alice", 0)
	if err != nil {
		t.Fatal(err)
	}
	const each = treeBytes + trees.BlockBytes
	if before-left != 5*each {
		t.Errorf("5 empty layers count as %d blocks", (before-left)/trees.BlockBytes)
	}
	kept, err := s.kept()
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, k := range kept {
		total += k.cost.own
	}
	if want := int64(50*trees.BlockBytes + 6*each); total != want {
		t.Errorf("all trees count as %d bytes, want %d", total, want)
	}
}

// TestCostsOnce: another store of the folder does not read the records of trees again.
func TestCostsOnce(t *testing.T) {
	s := openStore(t)
	tree := deriveFrom(t, s, "", entry{0, "a", "a", 0o644})
	if _, err := s.Put("a", "alice", tree, Config{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(s.trees.Files(tree)), "record.json")
	info, err := os.Stat(file)
	if err == nil {
		err = os.WriteFile(file, make([]byte, info.Size()), 0o644)
	}
	if err == nil {
		err = os.Chtimes(file, info.ModTime(), info.ModTime())
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := again.List(); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestManySteps: steps that make the same tree leave few records.
func TestManySteps(t *testing.T) {
	s := openStore(t)
	tree := deriveFrom(t, s, "", entry{0, "a", "a", 0o644})
	key := func(n int) [sha256.Size]byte { return sha256.Sum256([]byte(strconv.Itoa(n))) }
	for n := range 3 * maxSteps {
		at := time.Now().Add(time.Duration(n-100) * time.Second)
		if err := errors.Join(s.AddStep(key(n), tree), os.Chtimes(s.stepFile(key(n)), at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Prune(1 << 30); err != nil {
		t.Fatal(err)
	}
	for n := range 3 * maxSteps {
		if has := s.Step(key(n)) != ""; has != (n >= 2*maxSteps) {
			t.Errorf("step %d is there: %v", n, has)
		}
	}
}
