package gvisor

import (
	"context"
	"net"
	"path/filepath"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Box = (*Box)(nil)

// Box is one gVisor sandbox. Its process is runsc. The control group also counts gVisor's own processes.
type Box struct {
	*hostbox.Box
	backend *Backend
	spec    sandbox.Spec
	saving  sync.Mutex // held by Checkpoint and Promote
}

// Resize changes the limits of memory and CPUs.
func (box *Box) Resize(_ context.Context, l sandbox.Limits) error { return box.ResizeBy(l, ownMemory) }

// watch waits for runsc's end, and kills processes that a killed runsc may have left.
func (box *Box) watch() {
	box.Straggle = func() {
		box.Group.Kill()
		if box.backend.caller.UID != 0 {
			ctx, cancel := context.WithTimeout(context.Background(), hostbox.KillTimeout)
			defer cancel()
			endAll(ctx, box.Sandbox)
		}
	}
	box.Watch()
}

// destroy ends a box that is not watched yet.
func (box *Box) destroy() error {
	box.Process.Kill()
	box.Group.Kill()
	box.Process.Wait()
	box.Process.Close()
	if box.Lifeline != nil {
		box.Lifeline.Close()
	}
	return nil
}

func (box *Box) Dial(ctx context.Context) (net.Conn, error) {
	return box.DialBy(ctx, box.dial)
}

func (box *Box) dial(ctx context.Context) (net.Conn, error) {
	return client.DialSocket(ctx, filepath.Join(box.Dir, socketFolder), socketFile)
}
