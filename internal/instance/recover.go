package instance

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Recovery describes how a backend recovers what dead instances left.
type Recovery struct {
	Run      string                                                     // where instances are
	Keep     []sandbox.ID                                               // boxes to reattach
	End      Ender                                                      // ends all others
	Reattach func(ctx context.Context, dir string) (sandbox.Box, error) // makes a box from the folder of one to keep
	At       func(step string, err error) error                         // names the step that failed
}

// Recover ends what dead instances left, and reattaches the boxes to keep. A box that cannot be ended blocks none of them:
// its error is returned beside the boxes.
func Recover(ctx context.Context, r Recovery) ([]sandbox.Box, error) {
	wanted := map[sandbox.ID]bool{}
	for _, id := range r.Keep {
		wanted[id] = true
	}
	kept, err := Reap(ctx, r.Run, wanted, r.End)
	var errs []error
	if err != nil {
		errs = append(errs, r.At("recover", err))
	}
	var boxes []sandbox.Box
	for _, dir := range kept {
		box, err := r.Reattach(ctx, dir)
		if err != nil {
			errs = append(errs, r.At("reattach "+filepath.Base(dir), err))
			continue
		}
		boxes = append(boxes, box)
	}
	return boxes, errors.Join(errs...)
}
