package wire

import (
	"encoding/binary"
	"io"
)

// messageHeader is the size of a message's header: the body's length as a little-endian uint32, and the type as a
// uint8.
const messageHeader = 5

// bodyStep bounds the memory for a claimed length before its bytes arrive.
const (
	bodyStep  = 64 << 10
	bodyLeast = 512
)

// Send sends one message. The parts of the body are joined.
func (st *Stream) Send(typ uint8, body ...[]byte) error { return st.sendMessage(sending{}, typ, body) }

// SendLast sends one message and the end of this side, in one piece.
func (st *Stream) SendLast(typ uint8, body ...[]byte) error {
	return st.sendMessage(sending{last: true}, typ, body)
}

// TrySendLast is SendLast, but fails with ErrBusy if it had to wait. Then nothing is sent.
func (st *Stream) TrySendLast(typ uint8, body ...[]byte) error {
	return st.sendMessage(sending{last: true, now: true}, typ, body)
}

// SendLastLater is SendLast for a message that may arrive a millisecond later: with the next frames of the session.
func (st *Stream) SendLastLater(typ uint8, body ...[]byte) error {
	return st.sendMessage(sending{last: true, later: true}, typ, body)
}

func (st *Stream) sendMessage(how sending, typ uint8, body [][]byte) error {
	n := 0
	for _, p := range body {
		n += len(p)
	}
	if n > MaxMessage {
		return ErrTooLong
	}
	head := AppendMessageHeader(make([]byte, 0, messageHeader), typ, n)
	var parts [4][]byte
	_, err := st.send(how, append(append(parts[:0], head), body...)...)
	return err
}

// AppendMessageHeader appends the header of a body of n bytes.
func AppendMessageHeader(b []byte, typ uint8, n int) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(n)), typ)
}

// Recv waits for the next message. The body is valid until the next call. io.EOF means that the peer has sent its last
// message; a message that is too long resets the stream.
func (st *Stream) Recv() (typ uint8, body []byte, err error) {
	typ, body, err = ReadMessage(st, st.body)
	st.body = body
	if err == ErrTooLong {
		st.Reset()
	}
	if cap(body) > 2*bodyStep && len(body) <= bodyStep {
		st.body = nil // free a large message's memory
	}
	return typ, body, err
}

// ReadMessage reads one message from r into buf, or into a larger buffer if it does not fit.
func ReadMessage(r io.Reader, buf []byte) (typ uint8, body []byte, err error) {
	var h [messageHeader]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, buf[:0], err
	}
	n := int(binary.LittleEndian.Uint32(h[:]))
	if n > MaxMessage {
		return 0, buf[:0], ErrTooLong
	}
	body = buf[:0]
	for len(body) < n {
		if len(body) == cap(body) {
			size := min(max(n, bodyLeast), max(bodyStep, 2*cap(body)))
			body = append(make([]byte, 0, size), body...)
		}
		m, err := io.ReadFull(r, body[len(body):min(n, cap(body))])
		body = body[:len(body)+m]
		if err != nil {
			return 0, body[:0], cut(err)
		}
	}
	return h[4], body, nil
}
