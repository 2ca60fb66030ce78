package client_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// FuzzHostileGuest answers the host's calls with arbitrary data: raw bytes, then messages of any type and body. Every
// call must end when the guest does, and return nothing unchecked.
func FuzzHostileGuest(f *testing.F) {
	welcome := guest.Append(nil, &guest.Welcome{Version: guest.Version, ID: "x", Generation: 1})
	out := func(o guest.Output) []byte { return guest.Append(nil, &o) }
	f.Add(welcome, uint8(guest.TypeOutput), out(guest.Output{Stream: 1, Data: []byte("abc")}), uint8(guest.TypeExited),
		[]byte{3, 1, 'p'}, []byte{})
	f.Add(welcome, uint8(guest.TypeOutput), out(guest.Output{Stream: 2, Offset: 1 << 63, Data: []byte("abc")}),
		uint8(guest.TypeFailed),
		guest.Append(nil, &guest.Failed{Kind: 200, Op: "\x1b[2J", Errno: 1 << 31, Stream: 1}), []byte{})
	f.Add(welcome, uint8(guest.TypeOutput), out(guest.Output{Stream: 3, Data: []byte("done 1 1\n"),
		BeforeStdout: 1 << 63,
		BeforeStderr: 1}),
		uint8(guest.TypeOutput), out(guest.Output{Stream: 1, Offset: 9, Data: []byte("a"), BeforeStdout: 1}), []byte{})
	f.Add(welcome, uint8(guest.TypeProcesses), guest.Append(nil, &guest.Processes{Processes: make([]guest.ProcessInfo,
		3)}),
		uint8(guest.TypeAccepted), []byte{}, []byte("\x01\x00\x00\x00\x03\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, welcome []byte, typ1 uint8, body1 []byte, typ2 uint8, body2 []byte, raw []byte) {
		host, peer := net.Pipe()
		go hostile(peer, welcome, typ1, body1, typ2, body2, raw)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		c, err := client.New(ctx, host, zeroKey)
		if err != nil {
			return
		}
		defer c.Close()
		for _, channel := range []bool{false, true} {
			p, err := c.Start(ctx, guest.Start{ID: "p", Argv: []string{"x"}, Channel: channel})
			if err != nil {
				continue
			}
			var next [4]uint64
			e, err := p.Stream(ctx, func(o guest.Output) error {
				if o.Stream < sandbox.Stdout || o.Stream > sandbox.Channel || o.Stream == sandbox.Channel && !channel ||
					o.Stream != sandbox.Channel && o.BeforeStdout+o.BeforeStderr != 0 || o.Offset < next[o.Stream] ||
					len(o.Data) == 0 ||
					len(o.Data) > guest.MaxData {
					t.Errorf("output %d at %d after %d, %d bytes", o.Stream, o.Offset, next[o.Stream], len(o.Data))
				}
				next[o.Stream] = o.Offset + uint64(len(o.Data))
				return nil
			}, true)
			if err == nil && e.ID != "p" {
				t.Errorf("exit record of %q", e.ID)
			}
			if err != nil && sandbox.KindOf(err) > sandbox.TooLarge {
				t.Errorf("kind %d", sandbox.KindOf(err))
			}
		}
		c.List(ctx)
		c.Input(ctx, guest.Input{ID: "p", Data: []byte("x")})
		c.Wait(ctx, "p")
		if conn, err := c.Dial(ctx, 80); err == nil {
			io.Copy(io.Discard, conn)
			conn.Close()
		}
		if ctx.Err() != nil {
			t.Error("a call did not end with its guest")
		}
	})
}

var zeroKey [32]byte

// hostile is a guest that completes the handshake, sends its data once on each of a few streams, and ends.
func hostile(conn net.Conn, welcome []byte, typ1 uint8, body1 []byte, typ2 uint8, body2 []byte, raw []byte) {
	defer conn.Close()
	var preamble [len(guest.Magic) + 1 + guest.KeySize]byte
	io.ReadFull(conn, preamble[:])
	conn.Write(binary.LittleEndian.AppendUint64([]byte(guest.MagicReply), 1))
	s := wire.NewSession(conn, wire.Guest)
	defer s.Close()
	for range 7 {
		st, err := s.Accept()
		if err != nil {
			return
		}
		typ, _, _ := st.Recv()
		switch guest.Type(typ) {
		case guest.TypeHello:
			st.SendLast(uint8(guest.TypeWelcome), welcome)
			continue
		case guest.TypeStart:
			st.Send(uint8(guest.TypeStarted))
		case guest.TypeDial:
			st.Send(uint8(guest.TypeDialed))
		}
		st.Send(typ1, body1)
		st.Send(typ1, body1)
		st.SendLast(typ2, body2)
	}
	s.Flush()
	conn.Write(raw)
}
