package image

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Roots gives backends the root file systems of a store. It opens the store when an image is first used.
type Roots struct {
	Open  func() (*Store, error)
	Fetch bool // fetch missing images
	// Refresh fetches an image when it is first used, if its registry has another one by now. Templates have none.
	Refresh bool
	Report  func(string) // receives the progress of a fetch; may be nil

	fresh sync.Map // names that were fetched
}

var _ hostbox.Images = (*Roots)(nil)

// Fetches reports whether Find may fetch an image that is not here.
func (r *Roots) Fetches() bool { return r.Fetch }

// Find returns the image that a name leads to. With fetch, it fetches a missing one if it may.
func (r *Roots) Find(ctx context.Context, name string, fetch bool) (sandbox.Image, error) {
	s, err := r.Open()
	if err != nil {
		return sandbox.Image{}, err
	}
	i, err := s.Find(name)
	if fetch && r.Fetch && (sandbox.KindOf(err) == sandbox.NotFound || err == nil && r.isStale(&i)) {
		if i, err = s.Pull(ctx, name, r.Report); err == nil {
			r.fresh.Store(i.Name, true)
		}
	}
	if err != nil {
		return sandbox.Image{}, err
	}
	return s.settings(i), nil
}

// isStale reports whether an image must be fetched again.
func (r *Roots) isStale(i *Image) bool {
	_, fetched := r.fresh.Load(i.Name)
	return r.Refresh && !i.Built && !fetched
}

// Hold returns the root file system of a digest, which exists until release.
func (r *Roots) Hold(digest string) (root hostbox.ImageRoot, err error) {
	s, err := r.Open()
	if err != nil {
		return root, err
	}
	root.Release, err = s.trees.Hold(digest)
	if errors.Is(err, fs.ErrNotExist) {
		err = &sandbox.Error{Kind: sandbox.NotFound, Op: "image", Msg: "it was removed", Fix: "fetch it again"}
	}
	root.Dir = s.trees.Files(digest)
	return root, err
}
