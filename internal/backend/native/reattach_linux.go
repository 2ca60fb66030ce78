package native

import (
	"context"

	"github.com/glovebox-dev/glovebox/internal/hostbox"
	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// socketFile is the guest's socket in a box's folder.
const socketFile = "s"

// reattach makes a box from the folder that a dead server left.
func (b *Backend) reattach(ctx context.Context, dir string) (*Box, error) {
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	base, _, err := hostbox.Reattach(ctx, Name, in, dir, guestsOf)
	if err != nil {
		return nil, err
	}
	base.Watch()
	box := &Box{Box: base}
	b.hoards.watch(box)
	return box, nil
}

// reapBox ends one box of a dead owner.
func reapBox(ctx context.Context, _ sandbox.ID, dir string, owner instance.Record) error {
	return hostbox.Reap(ctx, Name, dir, owner, guestsOf)
}
