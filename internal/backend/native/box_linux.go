package native

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest/confine"
	"github.com/glovebox-dev/glovebox/internal/hostbox"
	"github.com/glovebox-dev/glovebox/sandbox"
)

var _ sandbox.Box = (*Box)(nil)

// Box is one native sandbox. Its process is its guest, with which the kernel ends all others.
type Box struct {
	*hostbox.Box
	backend *Backend
	walls   *confine.Plan // what a fork of a zygote does to itself here; nil where none may be put in
	entry   entry         // of a fork
}

// entry is held by Fork, so that what it works with is not given up meanwhile: the control group may be the next sandbox's then.
type entry struct {
	sync.Mutex
	used bool
}

// start takes the guest over.
func (box *Box) start(g *spawned) {
	box.Process, box.Lifeline, box.Began = g.process, g.setup, time.Now()
	box.Entry = &box.entry // soon free, once the box has ended, as what is forked has nowhere to go any more
	box.Watch()
	box.backend.hoards.watch(box)
}

// Dial connects to the guest.
func (box *Box) Dial(ctx context.Context) (net.Conn, error) {
	if err := box.Alive(); err != nil {
		return nil, err
	}
	conn, err := dial(ctx, box.Dir)
	if err != nil {
		return nil, at("dial guest", err)
	}
	return conn, nil
}
