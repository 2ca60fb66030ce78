package native

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Linker = (*Box)(nil)

// link makes the interface in a guest's network namespace. It vanishes with its outer end: then whatever the code sends fails at once.
func (b *Backend) link(ctx context.Context, guest *pidfd.Process) (*os.File, error) {
	return tap.Make(ctx, tap.Place{FD: guest.FD, Own: b.user.UID != 0}, false)
}

// Link returns the outer end of the box's network.
func (box *Box) Link(ctx context.Context) (io.ReadWriteCloser, error) {
	if !box.Policy.Network.Linked() {
		return nil, tap.None()
	}
	end, err := box.outer.Take(func() (*os.File, error) { return box.backend.link(ctx, box.Process) })
	if err != nil {
		return nil, at("link", err)
	}
	return end, nil
}

// Close ends the sandbox and frees its resources.
func (box *Box) Close() error {
	release := box.outer.Shut()
	return errors.Join(box.Box.Close(), release())
}
