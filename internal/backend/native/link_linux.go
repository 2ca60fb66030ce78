package native

import (
	"context"
	"io"
	"os"

	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Linker = (*Box)(nil)

// link makes the interface in a guest's network namespace. The interface vanishes with its outer end: every send of the
// code then fails at once.
func (b *Backend) link(ctx context.Context, guest *pidfd.Process) (*os.File, error) {
	return tap.Make(ctx, tap.Place{FD: guest.FD, Own: b.user.UID != 0}, false)
}

// Link returns the outer end of the box's network.
func (box *Box) Link(ctx context.Context) (io.ReadWriteCloser, error) {
	return box.LinkBy(func() (*os.File, error) { return box.backend.link(ctx, box.Process) })
}
