package native

import (
	"context"
	"slices"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
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
		b.KeepImage(&base.Core)
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

// guestName is argv[0] of every guest. Its ID follows as argv[1], so a guest can be found without a record.
const guestName = "fumehood-guest"

// guestsOf finds a sandbox's guests: they have its command line and are the first process of a pid namespace. Sandboxed
// code can imitate neither.
func guestsOf(id sandbox.ID, among []int) []int {
	return slices.DeleteFunc(pidfd.FindAmong(among, func(argv []string) bool {
		return slices.Equal(argv,
			[]string{guestName, string(id)})
	}),
		func(pid int) bool { return !isInit(pid) })
}

// isInit reports whether a process is pid 1 of its own namespace (NSpid: its ids from the outermost on).
func isInit(pid int) bool {
	ids := pidfd.Status(pid, "NSpid:")
	return len(ids) > 1 && ids[len(ids)-1] == "1"
}
