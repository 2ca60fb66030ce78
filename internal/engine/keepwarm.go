package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// MaxWarmImages bounds the images of KeepWarm: each takes two kinds of requests, and half of all kinds stay for others.
const MaxWarmImages = maxShelves / 4

// warmEvery is how often the sandboxes of an image are requested: before they would be given up.
const warmEvery = shelfLife / 3

// KeepWarm keeps sandboxes of images ready until Close, for runs and living sandboxes with the default limits on the
// default backend. It looks up the images again and again, so that sandboxes of an image that changed follow. Errors
// are Invalid for too many images and without warm sandboxes, and those of a run for an image that is missing.
func (e *Engine) KeepWarm(ctx context.Context, images []string) error {
	if len(images) > 0 && e.config.Warm == 0 {
		return sandbox.Invalidf("warm images", "no sandboxes are kept warm here")
	}
	if len(images) > MaxWarmImages {
		return sandbox.Invalidf("warm images", "are more than %d", MaxWarmImages)
	}
	for _, image := range images {
		if err := e.warm(ctx, image); err != nil {
			return fmt.Errorf("keep sandboxes of %s warm: %w", image, err)
		}
	}
	if len(images) == 0 {
		return nil
	}
	e.endings.Go(func() {
		for every := time.NewTicker(warmEvery); ; {
			select {
			case <-every.C:
			case <-e.stop.Done():
				every.Stop()
				return
			}
			for _, image := range images {
				if err := e.warm(e.stop, image); err != nil && e.stop.Err() == nil {
					e.log.Warn("cannot keep sandboxes of an image warm", "image", image, "err", err)
				}
			}
		}
	})
	return nil
}

// warm requests the warm sandboxes of an image.
func (e *Engine) warm(ctx context.Context, image string) error {
	spec := sandbox.Spec{Root: sandbox.Root{Image: image}}
	p, err := e.resolve(OneShot{Spec: spec, Request: sandbox.Request{Command: []string{"true"}}})
	if err == nil {
		err = e.choose(ctx, p, true)
	}
	if err != nil {
		return err
	}
	e.pool.warm(p.backend, p.Spec)
	record, backend, err := e.planLiving(ctx, Create{Spec: spec})
	if err != nil {
		return err
	}
	record.Spec.Lifetime = sandbox.Lifetime{}
	e.pool.warm(backend, record.Spec)
	return nil
}
