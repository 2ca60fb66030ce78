package engine

import (
	"context"

	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// imageOf returns the image of a spec's root on a backend. It is zero for a root without an image, and if the image is
// unknown here. With fetch, a missing one may be fetched. A digest of the spec must be that of the image.
func (e *Engine) imageOf(ctx context.Context, b sandbox.Backend, spec sandbox.Spec, fetch bool) (sandbox.Image, error) {
	rooted, ok := b.(sandbox.Rooted)
	root := rootOf(b, spec)
	if !ok || root.Image == "" {
		return sandbox.Image{}, nil
	}
	image, err := rooted.ImageOf(ctx, root.Image, fetch)
	if err == nil && root.Digest != "" && image.Digest != "" && root.Digest != image.Digest {
		err = &sandbox.Error{Kind: sandbox.Unavailable, Op: "image", Msg: root.Image + " changed meanwhile",
			Fix: "run it again"}
	}
	return image, err
}

// enterImage completes the plan of a run by the image of its root.
func (e *Engine) enterImage(ctx context.Context, p *oneShot, fetch bool) error {
	image, err := e.imageOf(ctx, p.backend, p.Spec, fetch)
	if err == nil && image.Digest != "" {
		return e.plan(p, image)
	}
	if sandbox.KindOf(err) == sandbox.NotFound && !fetch {
		return nil // the backend's Preflight reports it
	}
	if err == nil && fetch && !plan.HasSource(&p.Request) {
		return plan.ErrNoSource()
	}
	return err
}
