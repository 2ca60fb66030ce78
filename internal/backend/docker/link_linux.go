package docker

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

// linkable returns an error if containers of this engine cannot have an interface. The engine makes them without a
// network, and the backend enters their network namespace.
func (to *connection) linkable() error {
	no := func(msg, fix string) error {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: to.engine.options.Name + ": network", Msg: msg, Fix: fix}
	}
	switch {
	case !to.local:
		return no("the engine at "+to.host+" is not on this host, so it cannot have a gate",
			"use an engine on this host")
	case os.Geteuid() != 0 || to.rootless:
		return no("only root can give a container of root's engine an interface",
			"run fumehood as root, with root's engine")
	case to.kernel() != sandbox.KernelShared:
		return no("the runtime "+to.runtime()+" has a kernel of its own, which takes no interface after its start",
			"use the engine's default runtime, or the backend gvisor")
	}
	return tap.Available()
}

// link makes the interface in the container's network namespace. It vanishes with its outer end.
func (box *Box) link(ctx context.Context) (*os.File, error) {
	p, err := box.first(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return tap.Make(ctx, tap.Place{FD: p.FD}, false)
}

// first opens the container's first process. The engine reports its number, which may be another process's after its
// end. So first asks again once the process is open.
func (box *Box) first(ctx context.Context) (*pidfd.Process, error) {
	before, err := box.state(ctx)
	if err != nil {
		return nil, err
	}
	p, err := pidfd.Open(before.Pid)
	if err != nil {
		return nil, err
	}
	after, err := box.state(ctx)
	if err == nil && (!after.Running || after.Pid != before.Pid) {
		err = errors.New("the container has ended")
	}
	if err == nil {
		err = isGuest(before.Pid)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// plug makes the interface of a new box and keeps its outer end.
func (box *Box) plug(ctx context.Context) error {
	end, err := box.link(ctx)
	if err == nil {
		box.Outer.Put(end)
	}
	return err
}

// Link returns the outer end of the box's network.
func (box *Box) Link(ctx context.Context) (io.ReadWriteCloser, error) {
	return box.LinkBy(func() (*os.File, error) { return box.link(ctx) })
}
