package server

import (
	"errors"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// call is one request and its answers. A handler sends answers, the last one by answer, or returns an error, which is sent
// as Failed.
type call struct {
	conn    *conn
	session *wire.Session
	st      *wire.Stream
	body    []byte // of the request; valid until the next message is received
}

// Errors that end a call without an answer.
var (
	errCanceled  = errors.New("server: the host is gone or wants no answer")
	errMalformed = errors.New("server: malformed message")
)

func (s *Server) serveCall(cn *conn, session *wire.Session, st *wire.Stream) {
	typ, body, err := st.Recv()
	if err != nil {
		st.Reset()
		return
	}
	h := handlerOf(guest.Type(typ))
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
	st.Close()
}

func unknown(*Server, *call) error {
	return &guest.Failed{Kind: sandbox.Unsupported, Msg: "the guest does not know this request"}
}

// parse reads the request into m.
func (c *call) parse(m guest.Message) error {
	if guest.Parse(c.body, m) != nil {
		return errMalformed
	}
	return nil
}

// send sends one message that others follow.
func (c *call) send(m guest.Message) error {
	return canceled(c.st.Send(uint8(m.MessageType()), guest.Append(nil, m)))
}

// sendData sends p, at most guest.MaxData bytes, as one Data message.
func (c *call) sendData(p []byte) error {
	return canceled(c.st.Send(uint8(guest.TypeData), guest.AppendDataHead(nil, len(p)), p))
}

// answer sends the last message.
func (c *call) answer(m guest.Message) error {
	return canceled(c.st.SendLast(uint8(m.MessageType()), guest.Append(nil, m)))
}

// recv waits for the host's next message on this call; io.EOF at the end. The body is valid until the next call.
func (c *call) recv() (guest.Type, []byte, error) {
	typ, body, err := c.st.Recv()
	return guest.Type(typ), body, err
}

// canceled is closed when the host has canceled the call or is gone.
func (c *call) canceled() <-chan struct{} { return c.st.Done() }

func canceled(err error) error {
	if err != nil {
		return errCanceled
	}
	return nil
}

// failure converts an error for the host.
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

// kindOf classifies an errno by what the caller can do about it.
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
