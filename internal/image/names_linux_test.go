package image

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestNamedOnce: of two owners who build a template of one name at once, one gets it.
func TestNamedOnce(t *testing.T) {
	s := openStore(t)
	tree := deriveOf(t, s, "a")
	for n := range 100 {
		name := "t" + strconv.Itoa(n)
		var errs [2]error
		var both sync.WaitGroup
		for i, owner := range []string{"alice", "bob"} {
			both.Go(func() { _, errs[i] = s.Put(name, owner, tree, Config{}) })
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("%s: %v, %v", name, errs[0], errs[1])
		}
	}
}

// TestPruneNamed: what is named while others are removed stays.
func TestPruneNamed(t *testing.T) {
	s := openStore(t)
	old, next := deriveOf(t, s, "old"), deriveOf(t, s, "next")
	for _, owner := range []string{"alice", "bob"} {
		if _, err := s.Put(owner, owner, old, Config{}); err != nil {
			t.Fatal(err)
		}
	}
	var named sync.WaitGroup
	_, _, _, err := s.prune(0, func(k keptTree) bool {
		if k.digest == old {
			begun := make(chan struct{})
			named.Go(func() {
				close(begun)
				release, err := s.trees.Hold(next) // as a build does
				if err == nil {
					defer release()
					_, err = s.Put("alice", "alice", next, Config{})
				}
				if err != nil {
					t.Error(err)
				}
			})
			<-begun
			time.Sleep(10 * time.Millisecond)
		}
		return k.digest == old
	})
	named.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if i, err := s.Find("alice"); err != nil || i.Tree != next {
		t.Errorf("the template that was named meanwhile: %v, %v", i.Tree, err)
	}
	if _, err := s.Find("bob"); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("the other name: %v", err)
	}
}

// deriveOf makes a tree with one file.
func deriveOf(t *testing.T, s *Store, name string) string {
	t.Helper()
	content := layerOf(t, entry{0, name, strings.Repeat(name, 10), 0o644})
	r, err := content.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tree, err := s.Derive(t.Context(), Layer{Owner: "alice", Content: r})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
