package hostbox

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/internal/host/undo"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Images is a store of images.
type Images interface {
	// Find returns the image that a name leads to. With fetch, it fetches a missing one if Fetches. NotFound: the image
	// is not here.
	Find(ctx context.Context, name string, fetch sandbox.Fetch) (sandbox.Image, error)
	// Hold returns the root file system of a digest, which exists while its lock is open. NotFound: it is not here.
	Hold(digest string) (ImageRoot, error)
	// Loadable returns the image of a name for a container engine. NotFound: it is not here.
	Loadable(name string) (Loadable, error)
	// Fetches reports whether Find may fetch an image that is not here.
	Fetches() bool
}

// ImageLabel of an image in an engine names the image of the store from which it was loaded.
const ImageLabel = "dev.fumehood.image"

// Loadable is an image of a store that a container engine can load.
type Loadable struct {
	sandbox.Image
	Name      string // in full
	Reference string // its name in engines, different for each content
	Built     bool   // it is a template of the operator, in place of an image of the engine with its name
	// Save writes it as docker save does, under Reference. It calls moved while it makes progress.
	Save func(ctx context.Context, to io.Writer, moved func()) error
}

// ImageRoot is the root file system of an image.
type ImageRoot struct {
	Dir  string
	Lock *os.File // of package filelock
}

// Release gives the root up, also for processes that have inherited its lock.
func (r ImageRoot) Release() { _ = filelock.Close(r.Lock) }

// heldImage is the image of a box. The zero value is none.
type heldImage struct {
	name string // with its id
	root ImageRoot
}

// ImageLock returns the lock of the box's image, or null. The process whose end ends the box inherits it, so that the
// image of a living box is held while no server runs.
func (c *Core) ImageLock(null *os.File) *os.File { return cmp.Or(c.image.root.Lock, null) }

// WithImage returns a policy that names the image of the box.
func (c *Core) WithImage(p sandbox.Policy) sandbox.Policy {
	p.Image = c.image.name
	return p
}

// imageFile in a box's folder has the id of its root, for the process that reattaches the box.
const imageFile = "image"

// Root returns the default root of a spec: that of the host.
func (b *Base) Root(sandbox.Spec) sandbox.Root { return sandbox.Root{} }

// ImageOf returns the image that a name leads to.
func (b *Base) ImageOf(ctx context.Context, name string, fetch sandbox.Fetch) (sandbox.Image, error) {
	if b.Images == nil {
		return sandbox.Image{}, &sandbox.Error{Kind: sandbox.Unsupported, Op: b.Backend + ": image",
			Msg: "there is no store of images"}
	}
	image, err := b.Images.Find(ctx, name, fetch)
	if sandbox.KindOf(err) == sandbox.NotFound && !b.Images.Fetches() {
		err = &sandbox.Error{Kind: sandbox.NotFound, Op: b.Backend + ": image", Msg: name + " is not on this machine",
			Fix: "fetch it on the server: fumehood image pull " + name}
	}
	return image, err
}

// CheckImage returns the error for an image that a box could not show.
func (b *Base) CheckImage(name string) error {
	_, err := b.ImageOf(context.Background(), name, nil)
	if b.Images != nil && b.Images.Fetches() && sandbox.KindOf(err) == sandbox.NotFound {
		return nil
	}
	return err
}

// showImage makes the root file system of a spec's image the root of the box, and holds it until the box has ended.
func (b *Base) showImage(ctx context.Context, c *Core, spec *sandbox.Spec, made *undo.Stack) error {
	name, digest := spec.Root.Image, spec.Root.Digest
	if name == "" {
		return nil
	}
	if digest == "" {
		image, err := b.ImageOf(ctx, name, nil)
		if err != nil {
			return err
		}
		digest = image.Digest
	}
	if b.Images == nil {
		return b.CheckImage(name)
	}
	root, err := b.Images.Hold(digest)
	if err != nil {
		return err
	}
	made.Add(func() error { root.Release(); return nil })
	spec.Root.Dir, c.image = root.Dir, heldImage{name + " (" + digest + ")", root}
	return b.At("hold image", os.WriteFile(filepath.Join(c.Dir, imageFile), []byte(digest), 0o600))
}

// KeepImage holds the root file system of a reattached box again. The box shows it already, so a root that was removed
// meanwhile is no error here.
func (b *Base) KeepImage(c *Core) {
	id, err := os.ReadFile(filepath.Join(c.Dir, imageFile))
	if err != nil || b.Images == nil {
		return
	}
	if root, err := b.Images.Hold(string(id)); err == nil {
		c.image = heldImage{c.Policy.Image, root}
	}
}
