package image

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Roots gives backends the root file systems of a store. It opens the store when an image is first used, and tries
// again after a failure.
type Roots struct {
	Open  func() (*Store, error)
	Fetch bool // fetch missing images
	// Refresh fetches an image when it is first used, if its registry has another one by now. Templates have none.
	Refresh bool
	Report  func(string) // receives the progress of a fetch; may be nil

	fresh sync.Map // names that were fetched

	mu     sync.Mutex // guards opened
	opened *Store
}

func (r *Roots) store() (s *Store, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opened == nil {
		r.opened, err = r.Open()
	}
	return r.opened, err
}

var _ hostbox.Images = (*Roots)(nil)

// Fetches reports whether Find may fetch an image that is not here.
func (r *Roots) Fetches() bool { return r.Fetch }

// Find returns the image that a name leads to. With fetch, it fetches a missing one if it may.
func (r *Roots) Find(ctx context.Context, name string, fetch sandbox.Fetch) (sandbox.Image, error) {
	s, err := r.store()
	if err != nil {
		return sandbox.Image{}, err
	}
	_, fresh := r.fresh.Load(name)
	refresh := r.Refresh && !fresh
	var pull func() (Image, error)
	if fetch != nil && r.Fetch {
		pull = func() (i Image, err error) {
			err = fetch(ctx, func(ctx context.Context) error {
				// Another call may have fetched it while this one waited.
				i, err = s.Get(name, func() (Image, error) { return s.Pull(ctx, name, r.Report) }, refresh)
				return err
			})
			return i, err
		}
	}
	i, err := s.Get(name, pull, refresh)
	if err != nil {
		return sandbox.Image{}, err
	}
	if fetch != nil && r.Refresh {
		r.fresh.Store(name, true)
	}
	return s.settings(i), nil
}

// Get returns the image of a name. With pull, it fetches one that is missing; with refresh, also one that is no
// template, as its registry may have another one by now.
func (s *Store) Get(name string, pull func() (Image, error), refresh bool) (Image, error) {
	i, err := s.Find(name)
	if pull != nil && (sandbox.KindOf(err) == sandbox.NotFound || err == nil && refresh && !i.Built) {
		return pull()
	}
	return i, err
}

// Hold returns the root file system of a digest, which exists while its lock is open.
func (r *Roots) Hold(digest string) (root hostbox.ImageRoot, err error) {
	s, err := r.store()
	if err != nil {
		return root, err
	}
	root.Lock, err = s.trees.HoldOpen(digest)
	if errors.Is(err, fs.ErrNotExist) {
		err = &sandbox.Error{Kind: sandbox.NotFound, Op: "image", Msg: "it was removed", Fix: "fetch it again"}
	}
	root.Dir = s.trees.Files(digest)
	return root, err
}
