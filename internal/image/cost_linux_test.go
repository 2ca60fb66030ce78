package image

import (
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/trees"
)

// TestSharedFiles: files that templates share with the tree below them count once, and as long as one of them exists.
func TestSharedFiles(t *testing.T) {
	s := openStore(t)
	s.Bound(30 * trees.BlockBytes)
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
	before, _, err := s.left("alice", 0)
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
