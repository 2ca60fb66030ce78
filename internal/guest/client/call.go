package client

import (
	"context"
	"io"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
)

// call is one stream: a request and its answers. Its starter closes it.
type call struct {
	op   string
	ctx  context.Context
	st   *wire.Stream
	stop func() bool
}

// begin opens a stream and sends the request; last ends this side. The end of ctx ends the call.
func (c *Client) begin(ctx context.Context, op string, req guest.Message, last bool) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, broken(ctx, op, err)
	}
	st, err := c.session.Open()
	if err != nil {
		return nil, broken(ctx, op, err)
	}
	k := &call{op: op, st: st}
	k.bind(ctx)
	if err := k.send(req, last); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// tryBegin is begin for a request without more, if it need not wait; else it returns nil.
func (c *Client) tryBegin(ctx context.Context, op string, req guest.Message) *call {
	if ctx.Err() != nil {
		return nil
	}
	st, err := c.session.Open()
	if err != nil {
		return nil
	}
	k := &call{op: op, st: st}
	k.bind(ctx)
	if st.TrySendLast(uint8(req.MessageType()), guest.Append(nil, req)) != nil {
		k.close()
		return nil
	}
	return k
}

// bind makes the end of ctx end the call.
func (k *call) bind(ctx context.Context) {
	k.ctx = ctx
	k.stop = context.AfterFunc(ctx, k.st.Reset)
}

// unbind detaches the context. It returns the context's error if the context ended first.
func (k *call) unbind() error {
	if !k.stop() {
		return broken(k.ctx, k.op, context.Cause(k.ctx))
	}
	return nil
}

// close ends the call. It notifies the guest only if the guest may still send more.
func (k *call) close() {
	k.stop()
	k.st.Close()
}

// abort ends a call in the middle. Unlike close it never ends this side normally, so the guest does not mistake
// truncated content for complete content.
func (k *call) abort() {
	k.stop()
	k.st.Reset()
}

// send sends one message; last ends this side.
func (k *call) send(m guest.Message, last bool) error {
	body := guest.Append(nil, m)
	var err error
	if last {
		err = k.st.SendLast(uint8(m.MessageType()), body)
	} else {
		err = k.st.Send(uint8(m.MessageType()), body)
	}
	return k.sent(err)
}

// sendData sends p, at most guest.MaxData bytes, as one Data message.
func (k *call) sendData(p []byte) error {
	return k.sent(k.st.Send(uint8(guest.TypeData), guest.AppendDataHead(nil, len(p)), p))
}

func (k *call) closeWrite() error { return k.sent(k.st.CloseWrite()) }

// sent explains a failed send: a guest that ends a call early has already sent the reason.
func (k *call) sent(err error) error {
	if err != wire.ErrReset || k.ctx.Err() != nil {
		return k.wrap(err)
	}
	for {
		if _, _, early := k.next(); early != nil {
			if early == io.EOF {
				return k.wrap(wire.ErrReset)
			}
			return early
		}
	}
}

// next returns the guest's next message, or io.EOF at its end. A Failed message is returned as an error. The body is
// valid until the next call.
func (k *call) next() (guest.Type, []byte, error) {
	typ, body, err := k.st.Recv()
	switch {
	case err == io.EOF:
		return 0, nil, io.EOF
	case err != nil:
		return 0, nil, k.wrap(err)
	case guest.Type(typ) == guest.TypeFailed:
		var f guest.Failed
		if err := guest.Parse(body, &f); err != nil {
			return 0, nil, k.wrap(err)
		}
		return 0, nil, failure(k.op, &f)
	}
	return guest.Type(typ), body, nil
}

// must is next if the guest must send more.
func (k *call) must() (guest.Type, []byte, error) {
	typ, body, err := k.next()
	if err == io.EOF {
		err = k.wrap(io.ErrUnexpectedEOF)
	}
	return typ, body, err
}

// expect receives one message of m's type into m; any other type is a protocol error.
func (k *call) expect(m guest.Message) error {
	typ, body, err := k.must()
	if err != nil {
		return err
	}
	if typ != m.MessageType() {
		return k.wrap(wire.ErrProtocol)
	}
	return k.wrap(guest.Parse(body, m))
}

func (k *call) wrap(err error) error {
	if err == nil {
		return nil
	}
	return broken(k.ctx, k.op, err)
}

// roundTrip makes a call of one request and one answer.
func (c *Client) roundTrip(ctx context.Context, op string, req, answer guest.Message) error {
	k, err := c.begin(ctx, op, req, true)
	if err != nil {
		return err
	}
	defer k.close()
	return k.expect(answer)
}
