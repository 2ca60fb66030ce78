package instance

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Recovery is how a backend takes up what dead instances left.
type Recovery struct {
	Run      string                                                     // where instances are
	Keep     []sandbox.ID                                               // boxes to take back
	End      Ender                                                      // of all others
	TakeBack func(ctx context.Context, dir string) (sandbox.Box, error) // makes a box of the folder of one to keep
	At       func(step string, err error) error                         // names the step that failed
}

// Recover ends what instances without an owner left, and takes back the boxes to keep. What cannot be ended is in the way of none of them:
// the error tells of it beside the boxes.
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
		box, err := r.TakeBack(ctx, dir)
		if err != nil {
			errs = append(errs, r.At("take back "+filepath.Base(dir), err))
			continue
		}
		boxes = append(boxes, box)
	}
	return boxes, errors.Join(errs...)
}
