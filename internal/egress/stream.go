package egress

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// copySize is the most bytes of a connection that are read at once.
const copySize = 32 << 10

const (
	mostPieces   = 32  // of one size that may wait for the window of the sandbox
	leastWaiting = 256 // bytes that may wait for it in any case
)

// copyBuffers are held only while there are bytes to copy, so idle connections hold none.
var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// stream is a connection of the stack. One goroutine may read while another one writes.
type stream struct {
	endpoint           tcpip.Endpoint
	queue              waiter.Queue
	onRead, onWrite    waiter.Entry
	readable, writable chan struct{}
	buffer             int // bytes that the stack holds in each direction
}

var errReset = errors.New("the connection was reset")

// watch must be called once, before reading or writing.
func (s *stream) watch(e tcpip.Endpoint) {
	s.endpoint = e
	s.onRead, s.readable = waiter.NewChannelEntry(waiter.ReadableEvents | waiter.EventHUp | waiter.EventErr)
	s.onWrite, s.writable = waiter.NewChannelEntry(waiter.WritableEvents | waiter.EventHUp | waiter.EventErr)
	options := e.SocketOptions()
	options.SetSendBufferSize(int64(s.buffer), true)
	options.SetReceiveBufferSize(int64(s.buffer), true)
	s.queue.EventRegister(&s.onRead)
	s.queue.EventRegister(&s.onWrite)
}

// limitKernel gives the kernel's buffers of a server's connection the size of those of the stack, unless that is the
// usual size: then the kernel finds the size, up to 10 MB (tcp_rmem and tcp_wmem in tcp(7)).
func (s *stream) limitKernel(server net.Conn) {
	if tcp, ok := server.(*net.TCPConn); ok && s.buffer < maxBuffer {
		_ = tcp.SetReadBuffer(s.buffer) // neither fails on an open connection
		_ = tcp.SetWriteBuffer(s.buffer)
	}
}

// ended reports whether the stack is done with the connection.
func (s *stream) ended() bool {
	switch tcp.EndpointState(s.endpoint.State()) {
	case tcp.StateClose, tcp.StateError, tcp.StateTimeWait:
		return true
	}
	return false
}

// probeAfter is how long a connection may be silent before each probe, once the sandbox has ended its side or the
// server has stopped reading. The kernel answers for a closed socket for a minute (tcp_fin_timeout in tcp(7)), and then
// with a reset. Only tests change it.
var probeAfter = 30 * time.Second

// probe has the stack find out that the sandbox has no socket for the connection any more.
func (s *stream) probe() {
	idle, interval := tcpip.KeepaliveIdleOption(probeAfter), tcpip.KeepaliveIntervalOption(probeAfter)
	_ = s.endpoint.SetSockOpt(&idle) // a connection that has ended needs none
	_ = s.endpoint.SetSockOpt(&interval)
	s.endpoint.SocketOptions().SetKeepAlive(true)
}

// read returns the available bytes. It does not wait: it returns 0 and no error if there are none yet.
func (s *stream) read(b []byte) (int, error) {
	w := tcpip.SliceWriter(b)
	got, err := s.endpoint.Read(&w, tcpip.ReadOptions{})
	switch err.(type) {
	case nil:
		return got.Count, nil
	case *tcpip.ErrWouldBlock:
		return 0, nil
	case *tcpip.ErrClosedForReceive:
		return 0, io.EOF
	}
	return 0, errReset
}

// boundPieces limits the bytes that may wait for the window of the sandbox, before a piece of a size is written. The
// stack needs some 600 bytes for each piece that waits, so fewer bytes of small pieces may wait.
func (s *stream) boundPieces(size int) {
	s.endpoint.SocketOptions().SetSendBufferSize(int64(min(max(leastWaiting, mostPieces*size), s.buffer)), false)
}

// write writes all of b. It waits while the sandbox's window is full.
func (s *stream) write(b []byte) error {
	s.boundPieces(len(b))
	var r bytes.Reader
	for len(b) > 0 {
		r.Reset(b)
		n, err := s.endpoint.Write(&r, tcpip.WriteOptions{})
		b = b[n:]
		switch err.(type) {
		case nil:
		case *tcpip.ErrWouldBlock:
			<-s.writable
		default:
			return errReset
		}
	}
	return nil
}
