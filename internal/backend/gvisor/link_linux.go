package gvisor

import (
	"context"
	"io"
	"os"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Linker = (*Box)(nil)

// kindOf returns runsc's kind of network for a spec. With "sandbox", gVisor takes over the interfaces that exist when
// it starts: it moves their addresses into its own network stack, and uses them by sockets of kind AF_PACKET. So the
// interface exists before, and survives a closed outer end, as gVisor would not find another one.
func kindOf(spec *sandbox.Spec) string {
	if spec.Network.Linked() {
		return "sandbox"
	}
	return ""
}

// networkOf returns the network namespace of gVisor's kernel: that of our runsc, which has its own one if the spec has
// a network; otherwise a new one.
func networkOf(spec *sandbox.Spec) specs.LinuxNamespace {
	n := specs.LinuxNamespace{Type: specs.NetworkNamespace}
	if spec.Network.Linked() {
		n.Path = "/proc/self/ns/net"
	}
	return n
}

// leave moves the calling thread, which then starts runsc, into a network namespace with only the box's interface, if
// any.
func (box *Box) leave() error {
	if !box.spec.Network.Linked() {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	namespace, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer namespace.Close()
	return box.plug(tap.Place{FD: int(namespace.Fd())})
}

// plug makes the box's interface and keeps its outer end.
func (box *Box) plug(at tap.Place) error {
	end, err := tap.Make(context.Background(), at, true)
	if err := box.backend.Fail(failLink, err); err != nil {
		if end != nil {
			end.Close()
		}
		return err
	}
	box.Outer.Put(end)
	return nil
}

// Link returns the outer end of the box's network.
func (box *Box) Link(ctx context.Context) (io.ReadWriteCloser, error) {
	return box.LinkBy(func() (*os.File, error) {
		return tap.Take(ctx, tap.Place{FD: box.Process.FD, Own: box.backend.caller.UID != 0})
	})
}

// notSaved is the error for saving or restoring a box with a network: the saved kernel holds sockets of the old
// interface.
func notSaved(step string) error {
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: "gvisor: " + step,
		Msg: "a sandbox with a network cannot be saved",
		Fix: "create it without a network"}
}
