package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// chooseForImage names the backend of a run whose root is an image: the default one has none. Of those that do, the first that works here is
// taken, unless the user named another.
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
		if plan.Refusal == nil || len(sandbox.UnenforcedOf(plan.Refusal)) > 0 { // a limit is the run's to waive
			run.Backend = b.Name()
			return nil
		}
		failures, fix = append(failures, textOf(plan.Refusal)), cmp.Or(fix, sandbox.FixOf(plan.Refusal))
	}
	if named {
		return e.hasImages(run.Backend, flags)
	}
	if len(failures) > 0 {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "--image", Msg: "no backend that has images works here: " + strings.Join(failures, "; "), Fix: fix}
	}
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: "--image", Msg: "no backend of this system has images"}
}

// hasImages refuses a backend without images, where flags name those that have some. One that is unknown is the engine's to refuse.
func (e *openedEngine) hasImages(backend string, flags []string) error {
	for _, b := range e.backends.Backends {
		if b.Name() == backend && !sandbox.HasFeature(b, sandbox.FeatureImage) {
			return &sandbox.Error{Kind: sandbox.Unsupported, Op: "--image", Msg: backend + " has no images", Fix: strings.Join(flags, " or ")}
		}
	}
	return nil
}
