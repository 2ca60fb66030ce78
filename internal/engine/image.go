package engine

import (
	"context"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cputime"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// imageOf returns the image of a spec's root on a backend. It is zero for a root without an image, and if the image is
// unknown here. With fetch, a missing one may be fetched. Digest and settings of the spec must be those of the image.
func (e *Engine) imageOf(ctx context.Context, b sandbox.Backend, spec sandbox.Spec, fetch sandbox.Fetch) (sandbox.Image,
	error) {
	rooted, ok := b.(sandbox.Rooted)
	root := rootOf(b, spec)
	if !ok || root.Image == "" {
		return sandbox.Image{}, nil
	}
	image, err := rooted.ImageOf(ctx, root.Image, fetch)
	differ := func(was, is string) bool { return was != "" && is != "" && was != is }
	if err == nil && (differ(root.Digest, image.Digest) ||
		image.Digest != "" && differ(root.Settings, plan.Settings(image))) {
		err = &sandbox.Error{Kind: sandbox.Unavailable, Op: "image", Msg: root.Image + " changed meanwhile",
			Fix: "run it again"}
	}
	return image, err
}

// FetchFor returns how the pulls for an owner are admitted: each holds a slot, as a run does, and ends with the server.
func (e *Engine) FetchFor(owner string) sandbox.Fetch {
	return func(ctx context.Context, pull func(context.Context) error) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(e.stop, func() { cancel(errStopped) })()
		begun := false
		err := e.admission.acquire(ctx, owner, func() {
			begun = true
			e.runs.Add(1)
		})
		if begun {
			defer e.runs.Done()
		}
		if err != nil {
			return err
		}
		started := time.Now()
		defer func() { e.admission.release(owner, time.Since(started)) }()
		defer cputime.Aside(ctx)()
		return pull(ctx)
	}
}

// enterImage completes the plan of a run by the image of its root.
func (e *Engine) enterImage(ctx context.Context, p *oneShot, fetch bool) error {
	var fetched sandbox.Fetch
	if fetch {
		fetched = e.FetchFor(p.owner)
	}
	image, err := e.imageOf(ctx, p.backend, p.Spec, fetched)
	if err == nil && image.Digest != "" {
		tools := p.given.Request.Calls.Tools
		return e.planInTurn(ctx, p.owner, tools, func() error { return e.plan(p, image) })
	}
	if sandbox.KindOf(err) == sandbox.NotFound && !fetch {
		return nil // the backend's Preflight reports it
	}
	if err == nil && fetch && !plan.HasSource(&p.Request) {
		return plan.ErrNoSource()
	}
	return err
}
