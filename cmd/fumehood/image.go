package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// pullValue is the value of --pull: when images are fetched. "" is pullMissing.
type pullValue string

const (
	pullAlways  pullValue = "always" // fetch again what the registry has changed
	pullMissing pullValue = "missing"
	pullNever   pullValue = "never"
)

func (v *pullValue) String() string { return string(*v) }
func (v *pullValue) Type() string   { return "string" }
func (v *pullValue) Set(text string) error {
	switch *v = pullValue(text); *v {
	case pullAlways, pullMissing, pullNever:
		return nil
	}
	return fmt.Errorf("%.20q is not always, missing or never", text)
}

func (v *pullValue) add(cmd *cobra.Command) {
	cmd.Flags().Var(v, "pull", "`WHEN` to fetch images: always, missing or never (default missing)")
	completions(cmd, "pull", string(pullAlways), string(pullMissing), string(pullNever))
}

// chooseForImage sets the backend of a run from an image: the user's choice, else the first usable one that has the
// image, else the first usable one, which may fetch it.
func (e *openedEngine) chooseForImage(ctx context.Context, run *engine.OneShot) error {
	if run.Spec.Root.Image == "" {
		return nil
	}
	named := run.Backend != "" && run.Backend != engine.Auto
	var flags, failures []string
	var fix string
	for _, b := range e.byImage(ctx, run.Spec.Root.Image) {
		flags = append(flags, "--backend "+b.Name())
		if named {
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
		return e.checkImages(run.Backend, flags)
	}
	if len(failures) > 0 {
		return unsupported("--image", "no backend with images works here: "+strings.Join(failures, "; "), fix)
	}
	return unsupported("--image", "no backend on this system supports images", "")
}

// byImage returns the backends with images: those that have this one first.
func (e *openedEngine) byImage(ctx context.Context, image string) []sandbox.Backend {
	var here, others []sandbox.Backend
	for _, b := range e.backends.Backends {
		if !sandbox.HasFeature(b, sandbox.FeatureImage) {
			continue
		}
		if rooted, ok := b.(sandbox.Rooted); ok {
			if found, err := rooted.ImageOf(ctx, image, nil); err == nil && found.Digest != "" {
				here = append(here, b)
				continue
			}
		}
		others = append(others, b)
	}
	return append(here, others...)
}

// checkImages refuses a backend without images; flags choose one with images. The engine refuses unknown backends.
func (e *openedEngine) checkImages(backend string, flags []string) error {
	for _, b := range e.backends.Backends {
		if b.Name() == backend && !sandbox.HasFeature(b, sandbox.FeatureImage) {
			return unsupported("--image", backend+" does not support images", strings.Join(flags, " or "))
		}
	}
	return nil
}
