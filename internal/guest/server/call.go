package server

import (
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/server/files"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// call is one request and its answers. A handler sends the answers, the last one with answer, or returns an error,
// which the host receives as Failed. Implements files.Call.
type call struct {
	conn    *conn
	session *wire.Session
	st      *wire.Stream
	body    []byte // of the request; valid until the next message is received
}

// Errors that end a call without an answer.
var (
	errCanceled  = files.ErrCanceled
	errMalformed = files.ErrMalformed
)

func (s *Server) serveCall(cn *conn, session *wire.Session, st *wire.Stream) {
	typ, body, err := st.Recv()
	if err != nil {
		st.Reset()
		return
	}
	h := handlers[guest.Type(typ)]
	if h == nil {
		h = unknown
	}
	c := &call{conn: cn, session: session, st: st, body: body}
	switch err := h(s, c); err {
	case nil:
	case errCanceled, errMalformed:
		st.Reset()
	default:
		c.answer(failure(err))
	}
	st.Close() // resets the stream if the host still sends
}

func unknown(*Server, *call) error {
	return &guest.Failed{Kind: sandbox.Unsupported, Msg: "unknown request type"}
}

// Send sends one message that others follow.
func (c *call) Send(m guest.Message) error {
	return canceled(c.st.Send(uint8(m.MessageType()), guest.Append(nil, m)))
}

// SendData sends p, at most guest.MaxData bytes, as one Data message.
func (c *call) SendData(p []byte) error {
	return canceled(c.st.Send(uint8(guest.TypeData), guest.AppendDataHead(nil, len(p)), p))
}

func (c *call) answer(m guest.Message) error {
	return canceled(c.st.SendLast(uint8(m.MessageType()), guest.Append(nil, m)))
}

// answerLater is answer for what the host needs no sooner than what the guest sends next.
func (c *call) answerLater(m guest.Message) error {
	return canceled(c.st.SendLastLater(uint8(m.MessageType()), guest.Append(nil, m)))
}

// recv waits for the host's next message on this call; io.EOF at the end. The body is valid until the next call.
func (c *call) recv() (guest.Type, []byte, error) {
	typ, body, err := c.st.Recv()
	return guest.Type(typ), body, err
}

// Next is recv, but returns errCanceled once the host has canceled the call.
func (c *call) Next() (guest.Type, []byte, error) {
	typ, body, err := c.recv()
	if err != nil && err != io.EOF {
		err = errCanceled
	}
	return typ, body, err
}

// canceled is closed when the host has canceled the call or the connection has ended.
func (c *call) canceled() <-chan struct{} { return c.st.Done() }

// Wanted returns errCanceled once the host has canceled the call.
func (c *call) Wanted() error {
	select {
	case <-c.canceled():
		return errCanceled
	default:
		return nil
	}
}

// pause waits, unless the host cancels the call: errCanceled.
func (c *call) pause(d time.Duration) error {
	select {
	case <-c.canceled():
		return errCanceled
	case <-time.After(d):
		return nil
	}
}

// OnCancel calls f when the host cancels the call. stop waits for f, and returns false if f was called.
func (c *call) OnCancel(f func()) (stop func() bool) {
	over, ended := make(chan struct{}), make(chan bool, 1)
	go func() {
		select {
		case <-c.canceled():
			f()
			ended <- false
		case <-over:
			ended <- true
		}
	}()
	return func() bool {
		close(over)
		return <-ended
	}
}

func canceled(err error) error {
	if err != nil {
		return errCanceled
	}
	return nil
}

func failure(err error) *guest.Failed {
	var f *guest.Failed
	if errors.As(err, &f) {
		return f
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return failed("", errno)
	}
	return &guest.Failed{Kind: sandbox.Internal, Msg: err.Error()}
}

// failed is the Failed of a failed system call.
func failed(op string, errno syscall.Errno) *guest.Failed {
	return &guest.Failed{Kind: kindOf(errno), Op: op, Errno: uint32(errno)}
}

func kindOf(errno syscall.Errno) sandbox.Kind {
	switch errno {
	case syscall.ENOENT, syscall.ESRCH:
		return sandbox.NotFound
	case syscall.EEXIST, syscall.ENOTEMPTY:
		return sandbox.Exists
	case syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EINVAL, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP,
		syscall.ENOEXEC, syscall.ETXTBSY, syscall.EXDEV, syscall.EBUSY, syscall.ENXIO, syscall.ESPIPE, syscall.EMLINK:
		return sandbox.Invalid
	case syscall.ENAMETOOLONG, syscall.E2BIG, syscall.EFBIG:
		return sandbox.TooLarge
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return sandbox.Quota
	case syscall.ENOSYS, syscall.EOPNOTSUPP:
		return sandbox.Unsupported
	case syscall.ECONNREFUSED, syscall.ETIMEDOUT:
		return sandbox.Unavailable
	}
	return sandbox.Internal
}
