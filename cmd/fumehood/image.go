package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// chooseForImage chooses the backend of a run from an image: the user's, else the first with images that works here.
func (e *openedEngine) chooseForImage(ctx context.Context, run *engine.Run) error {
	if run.Spec.Root.Image == "" {
		return nil
	}
	named := run.Backend != "" && run.Backend != engine.Auto
	var flags []string
	var failures []string
	var fix string
	for _, b := range e.backends.Backends {
		has := sandbox.HasFeature(b, sandbox.FeatureImage)
		if has {
			flags = append(flags, "--backend "+b.Name())
		}
		if named || !has {
			continue
		}
		candidate := *run
		candidate.Backend = b.Name()
		plan, err := e.Plan(ctx, candidate)
		if err != nil {
			return err
		}
		if plan.Refusal == nil || len(sandbox.UnenforcedOf(plan.Refusal)) > 0 { // the run may waive limits
			run.Backend = b.Name()
			return nil
		}
		failures, fix = append(failures, textOf(plan.Refusal)), cmp.Or(fix, sandbox.FixOf(plan.Refusal))
	}
	if named {
		return e.hasImages(run.Backend, flags)
	}
	if len(failures) > 0 {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "--image", Msg: "no backend with images works here: " + strings.Join(failures, "; "), Fix: fix}
	}
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: "--image", Msg: "no backend on this system has images"}
}

// hasImages refuses a backend without images; flags suggest those with images. The engine refuses unknown backends.
func (e *openedEngine) hasImages(backend string, flags []string) error {
	for _, b := range e.backends.Backends {
		if b.Name() == backend && !sandbox.HasFeature(b, sandbox.FeatureImage) {
			return &sandbox.Error{Kind: sandbox.Unsupported, Op: "--image", Msg: backend + " has no images", Fix: strings.Join(flags, " or ")}
		}
	}
	return nil
}
