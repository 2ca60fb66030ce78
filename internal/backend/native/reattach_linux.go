package native

import (
	"context"
	"errors"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Promoter = (*Box)(nil)

// socketFile is the guest's socket in a box's folder.
const socketFile = "s"

// Reattach makes a box of a living one that its server left.
func (b *Backend) Reattach(ctx context.Context, id sandbox.ID) (sandbox.Box, error) {
	dir, err := b.claims.Claim(ctx, b.options.RunDir, id)
	if err != nil {
		return nil, at("reattach", err)
	}
	base, _, err := hostbox.Reattach(Name, dir, &b.claims, guestsOf)
	if err != nil {
		return nil, errors.Join(at("reattach", err), b.claims.Release(ctx, dir))
	}
	base.Watch()
	box := &Box{Box: base, backend: b}
	box.living.Store(true)
	b.hoards.watch(box)
	return box, nil
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

// reapBox ends one box of a dead owner.
func reapBox(ctx context.Context, _ sandbox.ID, dir string, owner instance.Record) error {
	return hostbox.Reap(ctx, Name, dir, owner, guestsOf)
}
