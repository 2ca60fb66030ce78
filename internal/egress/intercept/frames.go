package intercept

import (
	"errors"
	"net"
	"time"

	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
)

// Kinds of frames (RFC 9113, section 6).
const (
	frameData         = 0
	frameWindowUpdate = 8
)

// The CPU time that frames of HTTP/2 are charged beside their bytes if they carry no part of a body. Programs send one
// for some seconds, for some bytes of an answer, or for a request, so a flood of them waits long before it takes a CPU.
const (
	controlTime = 20 * time.Microsecond
	headersTime = 40 * time.Microsecond // beside its fields, which may be a thousand times as long (HPACK)
	windowTime  = 4 * time.Microsecond  // WINDOW_UPDATE: some clients send two for each 4 KiB of an answer
)

// frames is the sandbox's end of a connection of HTTP/2, inside TLS. It charges the frames that carry no part of a
// body, and the fields of heads as net/http decodes them, also of those that it refuses below the handler. It hides the
// state of TLS from http.Server, which would speak HTTP/1 on a connection with such a state that is no *tls.Conn.
type frames struct {
	net.Conn
	conn   *Conn
	follow duplex.Frames
}

var errFrames = errors.New("it does not speak HTTP/2")

func newFrames(inside net.Conn, c *Conn) *frames {
	f := &frames{Conn: inside, conn: c}
	f.follow.Most, f.follow.OnFields = sniff.MaxHead, c.spend
	f.follow.OnFrame = func(kind byte, length int) { c.spend(frameTime(kind, length)) }
	return f
}

func (f *frames) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if !f.follow.Follow(b[:n]) {
		return 0, errFrames
	}
	return n, err
}

// frameTime is what a frame of a length is charged.
func frameTime(kind byte, length int) time.Duration {
	switch {
	case kind == frameData && length > 0:
		return 0
	case kind == duplex.FrameHeaders, kind == duplex.FrameContinuation:
		return headersTime
	case kind == frameWindowUpdate:
		return windowTime
	}
	return controlTime
}
