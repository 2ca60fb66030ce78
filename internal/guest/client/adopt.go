//go:build unix

package client

import (
	"context"
	"errors"
	"net"
	"runtime"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Files are our ends of a process's channel, stdout and stderr.
type Files [3]sandbox.Descriptor

// Adopt passes an interpreter that waits, and was spawned from outside, to the guest as its parked one, on its own unix
// connection, and closes that. The caller closes its copies of the files.
func Adopt(ctx context.Context, conn net.Conn, key [guest.KeySize]byte, m guest.Adopt, files Files) error {
	const op = "guest: adopt"
	defer conn.Close()
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: op, Msg: "only unix sockets carry descriptors"}
	}
	if _, err := handshake(ctx, conn, guest.PurposeAdopt, key); err != nil {
		return broken(ctx, op, err)
	}
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if err := sendRights(unix, &m, files); err != nil {
		return broken(ctx, op, err)
	}
	typ, body, err := wire.ReadMessage(conn, nil)
	if err != nil {
		return broken(ctx, op, err)
	}
	var started guest.Started
	var failed guest.Failed
	switch {
	case guest.Type(typ) == guest.TypeStarted && guest.Parse(body, &started) == nil:
		return nil
	case guest.Type(typ) == guest.TypeFailed && guest.Parse(body, &failed) == nil:
		return failure(op, &failed)
	}
	return broken(ctx, op, wire.ErrProtocol)
}

// sendRights sends the message with the descriptors on its first byte.
func sendRights(conn *net.UnixConn, m *guest.Adopt, files Files) error {
	var fds []int
	for _, f := range files {
		if f == nil {
			return errors.New("a descriptor is missing")
		}
		fds = append(fds, int(f.Fd()))
	}
	body := guest.Append(nil, m)
	msg := append(wire.AppendMessageHeader(nil, uint8(m.MessageType()), len(body)), body...)
	n, _, err := conn.WriteMsgUnix(msg, syscall.UnixRights(fds...), nil)
	runtime.KeepAlive(files) // a collected file would be closed
	if err == nil && n < len(msg) {
		_, err = conn.Write(msg[n:])
	}
	return err
}
