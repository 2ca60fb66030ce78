package native

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Box = (*Box)(nil)

// Box is one native sandbox. Its process is the guest, with which the kernel ends all others.
type Box struct {
	*hostbox.Box
	backend *Backend
	walls   *confine.Plan // how a zygote's fork confines itself here; nil if none may enter
	entry   entry         // lock of Fork
	living  atomic.Bool
}

// Resize changes the limits of memory and CPUs.
func (box *Box) Resize(_ context.Context, l sandbox.Limits) error { return box.ResizeBy(l, 0) }

// entry is held by Fork, so that Close does not release the box's resources meanwhile: the next sandbox could reuse the
// control group.
type entry struct {
	sync.Mutex
	used bool // a fork has entered, or none may
}

func (box *Box) start(g *spawned) {
	box.Process, box.Lifeline = g.process, g.setup
	box.Entry = &box.entry // released soon after the box ends, as no fork can enter then
	box.Watch()
	box.backend.hoards.watch(box)
}

func (box *Box) Dial(ctx context.Context) (net.Conn, error) {
	return box.DialBy(ctx, func(ctx context.Context) (net.Conn, error) {
		return client.DialSocket(ctx, box.Dir, socketFile)
	})
}
