package image

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/trees"
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

// TestPruneNamed: a prune keeps a tree that gets a name while the prune removes others.
func TestPruneNamed(t *testing.T) {
	s := openStore(t)
	old, next := deriveOf(t, s, "old"), deriveOf(t, s, "next")
	for _, owner := range []string{"alice", "bob"} {
		if _, err := s.Put(owner, owner, old, Config{}); err != nil {
			t.Fatal(err)
		}
	}
	var named sync.WaitGroup
	_, _, _, err := s.prune(0, func(k *keptTree) bool {
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

// TestLayersInParallel: a layer that is being made holds its space, and keeps no other layer waiting.
func TestLayersInParallel(t *testing.T) {
	s := openStore(t)
	s.Space = 64 * trees.BlockBytes // half of it for one owner
	tarOf := func(blocks int) io.ReadCloser {
		layer := layerOf(t, entry{0, strconv.Itoa(blocks), strings.Repeat("x", blocks*trees.BlockBytes), 0o644})
		r, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	derive := func(owner string, content io.Reader) error {
		_, err := s.Derive(t.Context(), Layer{Owner: owner, Content: content})
		return err
	}
	first := tarOf(20)
	defer first.Close()
	content, feed := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- derive("alice", content) }()
	if _, err := io.CopyN(feed, first, 10*trees.BlockBytes); err != nil {
		t.Fatal(err)
	}
	if err := derive("bob", tarOf(20)); err != nil {
		t.Errorf("another owner: %v", err)
	}
	if err := derive("carol", tarOf(31)); sandbox.KindOf(err) != sandbox.Quota {
		t.Errorf("more than is left beside what is being made: %v", err)
	}
	broken := errors.New("broken")
	feed.CloseWithError(broken)
	if err := <-ended; !errors.Is(err, broken) {
		t.Errorf("the layer that was cut: %v", err)
	}
	if err := derive("alice", tarOf(21)); err != nil {
		t.Errorf("alone: %v", err)
	}
	if s.making.space != 0 {
		t.Errorf("%d bytes are held", s.making.space)
	}
}

// TestInPlaceOfEngines: only templates of the operator come before images of an engine that have their names.
func TestInPlaceOfEngines(t *testing.T) {
	s := openStore(t)
	tree := deriveOf(t, s, "a")
	roots := Roots{Open: func() (*Store, error) { return s, nil }}
	for _, owner := range []string{"", "alice"} {
		name := "of-" + owner + "1"
		if _, err := s.Put(name, owner, tree, Config{}); err != nil {
			t.Fatal(err)
		}
		if l, err := roots.Loadable(name); err != nil || l.Built != (owner == "") {
			t.Errorf("owner %q: %t, %v", owner, l.Built, err)
		}
	}
}

// TestHeads: a list shows each change of a name, keeps no head of a removed one, and reads no record twice.
func TestHeads(t *testing.T) {
	s := openStore(t)
	trees := []string{deriveOf(t, s, "a"), deriveOf(t, s, "b")}
	for _, tree := range trees {
		if _, err := s.Put("x", "alice", tree, Config{}); err != nil {
			t.Fatal(err)
		}
		if list, err := s.List(); err != nil || len(list) != 1 || list[0].Tree != tree || list[0].recordBytes == 0 {
			t.Errorf("%+v, %v", list, err)
		}
	}
	file := s.nameFile("docker.io/library/x:latest")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if i, err := s.heads.Of(file, info, func() (Image, error) {
		return Image{}, errors.New("the record is read again")
	}); err != nil || i.Owner != "alice" {
		t.Errorf("%+v, %v", i, err)
	}
	if err := s.Remove("x"); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); err != nil || len(list) != 0 || s.Names() != 0 {
		t.Errorf("%+v, %v, %d names", list, err, s.Names())
	}
}

// TestNamesOf: requests with an unknown digest read no records, and find new ones.
func TestNamesOf(t *testing.T) {
	s := openStore(t)
	tree := deriveOf(t, s, "a")
	folder := filepath.Join(s.dir, namesDir)
	for age, name := range []string{"b", "a"} { // the folder seems to be older each time
		made, err := s.Put(name, "alice", tree, Config{})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-time.Hour * time.Duration(age+1))
		if err := os.Chtimes(folder, at, at); err != nil {
			t.Fatal(err)
		}
		if i, err := s.Find(name + "@" + made.Digest); err != nil || i.Tree != tree {
			t.Errorf("%s by its digest: %v", name, err)
		}
		if s.byDigest.made.IsZero() {
			t.Error("the index is not kept")
		}
	}
}
