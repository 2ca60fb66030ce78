package image

import (
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/trees"
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

// costs keeps the costs of trees: each record has the digests of all layers of its tree.
type costs = trees.Facts[treeCost]

// allCosts has the costs of each folder of a store: a server opens its store for each list of images.
var allCosts sync.Map

func costsIn(dir string) *costs {
	found, _ := allCosts.LoadOrStore(dir, &costs{})
	return found.(*costs)
}

// cost returns the cost of a tree. Errors are those of trees.Store.Record.
func (s *Store) cost(digest string) (c treeCost, err error) {
	record, used, err := s.trees.Stat(digest)
	if err != nil {
		return c, err
	}
	c, err = s.costs.Of(digest, record, func() (treeCost, error) { return s.readCost(digest) })
	if err == nil {
		c.used = used
	}
	return c, err
}

// readCost reads the cost of a tree in its record.
func (s *Store) readCost(digest string) (treeCost, error) {
	var r treeRecord
	if _, _, err := s.trees.Record(digest, &r); err != nil {
		return treeCost{}, err
	}
	c := treeCost{own: r.Bytes, all: r.Bytes, owner: r.Owner, parent: r.Parent, layers: len(r.Layers),
		built: r.Added > 0 || r.Parent != ""} // a layer may add nothing
	if c.built {
		c.own = r.Added
	}
	return c, nil
}

// knownCost is cost, for many trees: it reads the disk for unknown trees only, and returns no time of the last use.
func (s *Store) knownCost(digest string) (treeCost, error) {
	if c, ok := s.costs.Recall(digest); ok {
		return c, nil
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
	s.costs.Retain(digests)
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
