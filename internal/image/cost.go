package image

import (
	"io/fs"
	"os"
	"sync"
	"time"
)

// treeCost is what a tree takes on the disk.
type treeCost struct {
	own    int64 // bytes of the files that the tree below it does not have
	all    int64
	built  bool   // a build made its last layer
	owner  string // that built it
	parent string // the tree below the last layer, if a build made it
	layers int
	used   time.Time
}

// costs keeps what was read of records: each has the digests of all layers of its tree.
type costs struct {
	mu    sync.Mutex
	known map[string]knownCost
}

// allCosts has the costs of each folder of a store: a server opens its store for each list of images.
var allCosts sync.Map

func costsIn(dir string) *costs {
	found, _ := allCosts.LoadOrStore(dir, &costs{known: map[string]knownCost{}})
	return found.(*costs)
}

type knownCost struct {
	file fs.FileInfo // of the record
	treeCost
}

// cost returns the cost of a tree. Errors are those of trees.Store.Record.
func (s *Store) cost(digest string) (treeCost, error) {
	file, used, err := s.trees.Stat(digest)
	if err != nil {
		return treeCost{}, err
	}
	s.costs.mu.Lock()
	k, ok := s.costs.known[digest]
	s.costs.mu.Unlock()
	if !ok || !os.SameFile(k.file, file) || k.file.Size() != file.Size() || !k.file.ModTime().Equal(file.ModTime()) {
		var r treeRecord
		if _, _, err := s.trees.Record(digest, &r); err != nil {
			return treeCost{}, err
		}
		built := r.Added > 0 || r.Parent != "" // a layer may add nothing
		k = knownCost{file, treeCost{own: r.Bytes, all: r.Bytes, built: built, owner: r.Owner, parent: r.Parent,
			layers: len(r.Layers)}}
		if k.built {
			k.own = r.Added
		}
		s.costs.mu.Lock()
		s.costs.known[digest] = k
		s.costs.mu.Unlock()
	}
	k.used = used
	return k.treeCost, nil
}

// knownCost is cost, for many trees: it looks only at the disk for unknown ones. The time of the last use may be old.
func (s *Store) knownCost(digest string) (treeCost, error) {
	s.costs.mu.Lock()
	k, ok := s.costs.known[digest]
	s.costs.mu.Unlock()
	if ok {
		return k.treeCost, nil
	}
	return s.cost(digest)
}

// whole reports whether the store has a tree with a record that can be decoded.
func (s *Store) whole(digest string) bool {
	_, err := s.cost(digest)
	return err == nil
}

// eachCost calls f for each tree, with its cost by cost or knownCost. A damaged one costs nothing: nobody can use it.
func (s *Store) eachCost(cost func(string) (treeCost, error), f func(digest string, c treeCost)) error {
	digests, err := s.trees.Digests()
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(digests))
	for _, digest := range digests {
		there[digest] = true
	}
	s.costs.mu.Lock()
	for digest := range s.costs.known {
		if !there[digest] {
			delete(s.costs.known, digest)
		}
	}
	s.costs.mu.Unlock()
	for _, digest := range digests {
		c, err := cost(digest)
		if err != nil && !s.trees.Has(digest) {
			continue // it was removed meanwhile
		}
		if c.parent != "" && !there[c.parent] {
			c.own, c.parent = c.all, ""
		}
		f(digest, c)
	}
	return nil
}
