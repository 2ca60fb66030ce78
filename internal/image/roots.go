package image

import (
	"context"
	"errors"
	"io/fs"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Roots gives backends the root file systems of a store. It opens the store when an image is first used.
type Roots struct {
	Open   func() (*Store, error)
	Fetch  bool         // fetch missing images
	Report func(string) // receives the progress of a fetch; may be nil
}

var _ hostbox.Images = (*Roots)(nil)

// Fetches reports whether Hold fetches an image that is not here.
func (r *Roots) Fetches() bool { return r.Fetch }

// ID returns the id of an image's root file system, or "" if the image is not here.
func (r *Roots) ID(name string) string {
	s, err := r.Open()
	if err != nil {
		return ""
	}
	i, err := s.Find(name)
	if err != nil {
		return ""
	}
	return i.Tree
}

// Hold returns the root file system of an image, which exists until release.
func (r *Roots) Hold(ctx context.Context, name string) (root hostbox.ImageRoot, err error) {
	s, err := r.Open()
	if err != nil {
		return root, err
	}
	for {
		i, err := s.Find(name)
		if sandbox.KindOf(err) == sandbox.NotFound && r.Fetch {
			i, err = s.Pull(ctx, name, r.Report)
		}
		if err != nil {
			return root, err
		}
		root.ID = i.Tree
		root.Dir, root.Release, err = s.Hold(i)
		if !errors.Is(err, fs.ErrNotExist) { // otherwise it was removed meanwhile
			return root, err
		}
	}
}

// Keep holds the root file system of an id again.
func (r *Roots) Keep(id string) (release func(), err error) {
	s, err := r.Open()
	if err != nil {
		return nil, err
	}
	return s.trees.Hold(id)
}
