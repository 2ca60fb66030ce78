package hostbox

import (
	"context"
	"os"
	"path/filepath"

	"github.com/fumehood-dev/fumehood/internal/host/undo"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Images is a store of images, for backends whose boxes show a folder of this host as their root.
type Images interface {
	// Hold returns the root file system of an image, which exists until release.
	Hold(ctx context.Context, image string) (ImageRoot, error)
	// Keep holds the root file system of an id again.
	Keep(id string) (release func(), err error)
	// ID returns the id of an image's root file system, or "" if the image is not here.
	ID(image string) string
	// Fetches reports whether Hold fetches an image that is not here.
	Fetches() bool
}

// ImageRoot is the root file system of an image.
type ImageRoot struct {
	Dir     string
	ID      string // of its content
	Release func()
}

// heldImage is the image of a box. The zero value is none.
type heldImage struct {
	name    string // with its id
	release func()
}

// WithImage returns a policy that names the image of the box.
func (c *Core) WithImage(p sandbox.Policy) sandbox.Policy {
	p.Image = c.image.name
	return p
}

// imageFile in a box's folder has the id of its root, for the process that reattaches the box.
const imageFile = "image"

// Root returns the default root of a spec: that of the host.
func (b *Base) Root(sandbox.Spec) sandbox.Root { return sandbox.Root{} }

// RootID returns the id of an image that is here, or "".
func (b *Base) RootID(_ context.Context, image string) string {
	if b.Images == nil {
		return ""
	}
	return b.Images.ID(image)
}

// CheckImage returns the error for an image that a box could not show.
func (b *Base) CheckImage(image string) error {
	switch {
	case image == "":
		return nil
	case b.Images == nil:
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: b.Backend + ": image", Msg: "there is no store of images"}
	case b.Images.ID(image) == "" && !b.Images.Fetches():
		return &sandbox.Error{Kind: sandbox.NotFound, Op: b.Backend + ": image", Msg: image + " is not on this machine",
			Fix: "fetch it on the server: fumehood image pull " + image}
	}
	return nil
}

// showImage makes the root file system of a spec's image the root of the box, and holds it until the box has ended.
func (b *Base) showImage(ctx context.Context, c *Core, spec *sandbox.Spec, made *undo.Stack) error {
	image := spec.Root.Image
	if image == "" {
		return nil
	}
	if err := b.CheckImage(image); err != nil {
		return err
	}
	root, err := b.Images.Hold(ctx, image)
	if err != nil {
		return err
	}
	made.Add(func() error { root.Release(); return nil })
	spec.Root.Dir, c.image = root.Dir, heldImage{image + " (" + root.ID + ")", root.Release}
	return b.At("hold image", os.WriteFile(filepath.Join(c.Dir, imageFile), []byte(root.ID), 0o600))
}

// KeepImage holds the root file system of a reattached box again. The box shows it already, so a root that was removed
// meanwhile is no error here.
func (b *Base) KeepImage(c *Core) {
	id, err := os.ReadFile(filepath.Join(c.Dir, imageFile))
	if err != nil || b.Images == nil {
		return
	}
	if release, err := b.Images.Keep(string(id)); err == nil {
		c.image = heldImage{c.Policy.Image, release}
	}
}
