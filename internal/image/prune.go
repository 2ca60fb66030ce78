package image

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// DefaultMaxBytes bounds the images of a store without another bound, in bytes.
const DefaultMaxBytes = 64 << 30

// orphanAge is how long a tree without a name stays: another process may be about to name it.
const orphanAge = time.Hour

// KeepSteps is how long the tree of a step of a build stays without use.
const KeepSteps = 7 * 24 * time.Hour

// Bound bounds all images of the store together, and so each, in bytes. A new image makes room for itself: the least
// recently used ones that nothing uses go first.
func (s *Store) Bound(bytes int64) {
	s.maxBytes, s.Limits.Bytes = bytes, min(s.Limits.Bytes, bytes)
}

// keptTree is a tree of the store, and the images with it.
type keptTree struct {
	digest string
	cost   treeCost
	used   time.Time // or the last use of a tree above it
	images []Image
	step   bool // a build can use it again
}

// isOrphan reports whether nobody will use the tree again.
func (t *keptTree) isOrphan() bool {
	age := orphanAge
	if t.step {
		age = KeepSteps
	}
	return len(t.images) == 0 && time.Since(t.used) > age
}

// isOf reports whether all images of the tree are templates of an owner.
func (t *keptTree) isOf(owner string) bool {
	return !slices.ContainsFunc(t.images, func(i Image) bool { return !i.Built || i.Owner != owner })
}

// Prune removes trees that nothing uses, the least recently used first, until the others have at most keep bytes. Files
// that trees of several images from elsewhere share count in each. A tree below another one stays, as its files do. It
// also removes trees that no image has and nobody used for an hour, or for KeepSteps those of builds. It returns the
// names of the removed images, and the bytes of the removed trees.
func (s *Store) Prune(keep int64) (names []string, bytes int64, err error) {
	names, bytes, _, err = s.prune(keep, func(*keptTree) bool { return true })
	return names, bytes, err
}

// reserve reserves bytes for an unpublished tree, which count as those of images do. Others make room for them.
func (s *Store) reserve(bytes int64) error {
	s.reserving.Lock()
	defer s.reserving.Unlock()
	drafted := s.drafted + bytes
	_, _, total, err := s.prune(max(s.maxBytes-drafted, 0), func(*keptTree) bool { return true })
	if err == nil && total+drafted > s.maxBytes {
		err = &sandbox.Error{Kind: sandbox.Busy, Op: "image", RetryAfter: time.Minute,
			Msg: "images in use and those being unpacked take the " + sandbox.FormatBytes(s.maxBytes) +
				" that are allowed", Fix: "try again later, or allow more: --image-cache-size"}
	}
	if err == nil {
		s.drafted = drafted
	}
	return err
}

// unreserve ends a reservation.
func (s *Store) unreserve(bytes int64) {
	s.reserving.Lock()
	defer s.reserving.Unlock()
	s.drafted -= bytes
}

// prune is Prune for the trees that may go. It also returns the bytes of those that are left.
func (s *Store) prune(keep int64, may func(*keptTree) bool) (names []string, bytes, total int64, err error) {
	p := pruned{keep: keep, may: may}
	err = s.takeUnused(&p)
	for _, tree := range p.taken { // without the lock, as it takes a while
		err = errors.Join(err, trees.RemoveAll(tree))
	}
	return p.names, p.bytes, p.total, err
}

// pruned is what prune removes.
type pruned struct {
	keep int64
	may  func(*keptTree) bool

	names        []string
	taken        []string // folders that are yet to be removed
	bytes, total int64
}

// takeUnused removes names, and takes their trees.
func (s *Store) takeUnused(p *pruned) error {
	done, err := s.lockNames()
	if err != nil {
		return err
	}
	defer done()
	kept, err := s.kept()
	if err != nil {
		return err
	}
	above := map[string]int{} // trees above each one
	for _, t := range kept {
		p.total += t.cost.own
		above[t.cost.parent]++
	}
	var errs []error
	for _, t := range kept {
		if p.total <= p.keep && !t.isOrphan() || above[t.digest] > 0 || !p.may(t) {
			continue
		}
		taken, err := s.trees.Take(t.digest)
		errs = append(errs, err)
		if taken == "" {
			continue // a sandbox uses it
		}
		p.taken = append(p.taken, taken)
		p.total, p.bytes = p.total-t.cost.own, p.bytes+t.cost.own
		above[t.cost.parent]--
		for _, i := range t.images {
			p.names = append(p.names, i.Name)
			if err := os.Remove(s.nameFile(i.Name)); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// kept returns the trees, the least recently used first, and each before those below it.
func (s *Store) kept() ([]*keptTree, error) {
	images, err := s.List()
	if err != nil {
		return nil, err
	}
	steps, err := s.steps()
	if err != nil {
		return nil, err
	}
	var list []*keptTree
	known := map[string]*keptTree{}
	err = s.eachCost(s.cost, func(digest string, c treeCost) {
		t := &keptTree{digest: digest, cost: c, used: c.used, step: steps[digest]}
		list, known[digest] = append(list, t), t
	})
	if err != nil {
		return nil, err
	}
	for _, i := range images {
		if t := known[i.Tree]; t != nil {
			t.images = append(t.images, i)
		}
	}
	slices.SortFunc(list, func(a, b *keptTree) int { return b.cost.layers - a.cost.layers })
	for _, t := range list {
		if below := known[t.cost.parent]; below != nil && below.used.Before(t.used) {
			below.used = t.used
		}
	}
	slices.SortStableFunc(list, func(a, b *keptTree) int { return a.used.Compare(b.used) })
	return list, nil
}
