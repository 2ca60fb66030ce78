// Package client is the host's side of the guest protocol.
//
// Everything it reads comes from inside a sandbox and is hostile. It is bounded and checked against the request; a
// violation ends the call or the connection with an error. A guest that is gone or violates the protocol is
// sandbox.Unavailable.
package client

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Client is one connection to a guest. Its methods may be called from any goroutine. Canceling a context ends the call
// that it was given to, never the connection.
type Client struct {
	session *wire.Session
	welcome guest.Welcome
}

// New shows the key on conn and receives the guest's Welcome. It takes over conn, and closes it on failure.
func New(ctx context.Context, conn net.Conn, key [guest.KeySize]byte) (*Client, error) {
	const op = "guest: connect"
	generation, err := handshake(ctx, conn, guest.PurposeMux, key)
	if err != nil {
		conn.Close()
		return nil, broken(ctx, op, err)
	}
	c := &Client{session: wire.NewSession(conn, wire.Host)}
	if err := c.roundTrip(ctx, op, &guest.Hello{}, &c.welcome); err != nil {
		c.Close()
		return nil, err
	}
	if c.welcome.Version != guest.Version || c.welcome.Generation < generation {
		c.Close()
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: op,
			Msg: "the guest speaks another version of the protocol"}
	}
	return c, nil
}

// handshake sends the preamble and reads the answer.
func handshake(ctx context.Context, conn net.Conn, purpose byte, key [guest.KeySize]byte) (generation uint64,
	err error) {
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if stop() {
			conn.SetDeadline(time.Time{})
		} else if err == nil {
			err = context.Cause(ctx)
		}
	}()
	preamble := append([]byte(guest.Magic), purpose)
	if _, err := conn.Write(append(preamble, key[:]...)); err != nil {
		return 0, err
	}
	var reply [len(guest.MagicReply) + 8]byte
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return 0, err
	}
	if string(reply[:len(guest.MagicReply)]) != guest.MagicReply {
		return 0, wire.ErrProtocol
	}
	return binary.LittleEndian.Uint64(reply[len(guest.MagicReply):]), nil
}

func (c *Client) Welcome() guest.Welcome { return c.welcome }

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.session.Done() }

// Err returns why the connection ended, nil while it is open.
func (c *Client) Err() error { return c.session.Err() }

// Close ends the connection and waits for its goroutines. It ends nothing in the sandbox.
func (c *Client) Close() error { return c.session.Close() }

// KillAll ends every process in the sandbox except the guest, and returns once they are reaped.
func (c *Client) KillAll(ctx context.Context) error {
	return c.roundTrip(ctx, "guest: kill all", &guest.KillAll{}, &guest.Done{})
}

// Lease ends the sandbox after d, unless another Lease comes before; 0 cancels the lease.
func (c *Client) Lease(ctx context.Context, d time.Duration) error {
	return c.roundTrip(ctx, "guest: lease", &guest.Lease{For: d}, &guest.Done{})
}

// Reborn gives a restored guest a new identity. This connection stays open; new ones need the new key.
func (c *Client) Reborn(ctx context.Context, m guest.Reborn) error {
	return c.roundTrip(ctx, "guest: reborn", &m, &guest.Done{})
}

// Hold makes the guest close its socket and all connections, including this one; see guest.Hold. A guest that did not
// make its own socket refuses: sandbox.Unsupported.
func (c *Client) Hold(ctx context.Context) error {
	if err := c.roundTrip(ctx, "guest: hold", &guest.Hold{}, &guest.Done{}); err != nil {
		return err
	}
	select {
	case <-c.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) Shutdown(ctx context.Context) error {
	return c.roundTrip(ctx, "guest: shutdown", &guest.Shutdown{}, &guest.Done{})
}

func (c *Client) List(ctx context.Context) ([]guest.ProcessInfo, error) {
	var m guest.Processes
	err := c.roundTrip(ctx, "guest: list", &guest.List{}, &m)
	return m.Processes, err
}

// Memory changes the limit of memory that the guest watches, unless it is 0, and returns the number of processes that
// the guest has killed at the limit.
func (c *Client) Memory(ctx context.Context, limit int64) (kills int64, err error) {
	var m guest.MemoryState
	err = c.roundTrip(ctx, "guest: memory", &guest.Memory{Limit: uint64(limit)}, &m)
	return int64(m.OOMKills), err
}

func (c *Client) Wait(ctx context.Context, id string) (guest.Exited, error) {
	var m guest.Exited
	const op = "guest: wait"
	if err := c.roundTrip(ctx, op, &guest.Wait{ID: id}, &m); err != nil {
		return m, err
	}
	if m.ID != id {
		return guest.Exited{}, broken(ctx, op, wire.ErrProtocol)
	}
	return m, nil
}

// Ack lets the guest drop output, or a whole execution.
func (c *Client) Ack(ctx context.Context, m guest.Ack) error {
	return c.roundTrip(ctx, "guest: acknowledge", &m, &guest.Done{})
}

// Signal sends a signal to a process, its group or its execution. An ended process is NotFound.
func (c *Client) Signal(ctx context.Context, m guest.Signal) error {
	return c.roundTrip(ctx, "guest: signal", &m, &guest.Done{})
}

func (c *Client) Resize(ctx context.Context, m guest.Resize) error {
	return c.roundTrip(ctx, "guest: resize", &m, &guest.Done{})
}

// Input sends at most guest.MaxData bytes to stdin and returns the offset up to which stdin has taken them.
func (c *Client) Input(ctx context.Context, m guest.Input) (uint64, error) {
	k, err := c.begin(ctx, opInput, &m, true)
	if err != nil {
		return 0, err
	}
	defer k.close()
	return k.accepted(&m)
}

const opInput = "guest: stdin"

// accepted receives the answer to an Input.
func (k *call) accepted(m *guest.Input) (uint64, error) {
	var a guest.Accepted
	if err := k.expect(&a); err != nil {
		return 0, err
	}
	if a.Offset < m.Offset+uint64(len(m.Data)) {
		return 0, k.wrap(wire.ErrProtocol)
	}
	return a.Offset, nil
}
