package docker

import (
	"context"
	"net"
	"path"

	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
)

// socketFolder is the part of a box's folder where the guest makes its socket.
const socketFolder = "socket"

// dial connects to the guest: by its socket if that is on this host, else through a process that the engine starts in
// the container.
func (box *Box) dial(ctx context.Context) (net.Conn, error) {
	if box.to.sockets {
		return box.dialSocket(ctx)
	}
	to := box.to
	made, err := ask(ctx, to, "dial guest", callTimeout, func(ctx context.Context) (client.ExecCreateResult, error) {
		return to.api.ExecCreate(ctx, box.name(), client.ExecCreateOptions{User: "0:0", AttachStdin: true,
			AttachStdout: true,
			Env:          []string{confine.EnvPlan + "="}, WorkingDir: "/",
			Cmd: []string{guestPath, confine.BridgeArg + path.Join(socketDir, socketFile)}})
	})
	if err != nil {
		return nil, err
	}
	joined, err := ask(ctx, to, "dial guest", callTimeout, func(ctx context.Context) (client.ExecAttachResult, error) {
		return to.api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	})
	if err != nil {
		return nil, err
	}
	return newBridge(joined.HijackedResponse), nil
}
