package native

import (
	"context"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Promoter = (*Box)(nil)

// socketFile is the guest's socket in a box's folder.
const socketFile = "s"

// Reattach makes a box of a living one that its server left.
func (b *Backend) Reattach(ctx context.Context, id sandbox.ID) (sandbox.Box, error) {
	return b.ReattachBy(ctx, id, func(dir string) (sandbox.Box, error) {
		base, _, err := hostbox.Reattach(Name, dir, &b.Claims, guestsOf)
		if err != nil {
			return nil, err
		}
		base.Watch()
		box := &Box{Box: base, backend: b}
		box.living.Store(true)
		b.hoards.watch(box)
		return box, nil
	})
}

// Promote makes the box living. No fork may enter it after that: code may be waiting there (forkable).
func (box *Box) Promote(_ context.Context, lifetime sandbox.Lifetime) error {
	box.entry.Lock()
	defer box.entry.Unlock()
	if err := box.Box.Promote(lifetime, nil); err != nil {
		return err
	}
	box.entry.used = true
	box.living.Store(true)
	return nil
}
