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

// GuestLimited reports whether the guest kills processes at the memory limit.
func (box *Box) GuestLimited() bool { return box.Policy.Limits.MemoryBytes > 0 }

// Resize changes the limits of memory and CPUs, on the host and, of memory, in the guest.
func (box *Box) Resize(ctx context.Context, l sandbox.Limits) error {
	if err := box.ResizeBy(l, ownMemory); err != nil || l.MemoryBytes == 0 {
		return err
	}
	conn, err := box.Dial(ctx)
	if err != nil {
		return err
	}
	c, err := client.New(ctx, conn, box.Key)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Memory(ctx, l.MemoryBytes)
	return err
}

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
