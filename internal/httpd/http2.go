package httpd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/duplex"
)

// serveHTTP2 has inner serve the connections of a server that agree on HTTP/2, so that the fields of their heads are
// work as they are decoded: net/http refuses long heads below the handler, and gives no hook for what it reads inside
// TLS.
func (c *connections) serveHTTP2(server, inner *http.Server) {
	inner.Protocols = new(http.Protocols)
	inner.Protocols.SetUnencryptedHTTP2(true) // TLS has ended before
	inner.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(outer{}).(http.Handler).ServeHTTP(w, r)
	})
	inner.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		one := conn.(*decoded)
		return context.WithValue(server.ConnContext(ctx, one.Conn), outer{}, one.handler)
	}
	inner.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateActive || state == http.StateIdle { // the server itself notes the others
			server.ConnState(conn.(*decoded).Conn, state)
		}
	}
	server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, conn *tls.Conn, h http.Handler) {
			one := &decoded{Conn: conn, handler: h, closed: make(chan struct{})}
			one.follow.Most = maxHeaderBytes
			one.follow.OnFields = func(work time.Duration) { c.fields(conn, work) }
			l := &single{conn: one, ended: make(chan struct{})}
			_ = inner.Serve(l) // it only returns that l has ended
			if l.accepted {
				<-one.closed
			}
		}}
	server.RegisterOnShutdown(func() { _ = inner.Shutdown(context.Background()) })
}

// fields notes the work of fields of heads.
func (c *connections) fields(conn net.Conn, work time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[conn]; known != nil {
		known.unpaid += work
	}
}

// outer is the context key of the handler of a connection, which notes the state of its TLS in each request.
type outer struct{}

// decoded is a connection of HTTP/2, inside TLS.
type decoded struct {
	net.Conn // *tls.Conn
	handler  http.Handler
	follow   duplex.Frames
	once     sync.Once
	closed   chan struct{}
}

var errFrames = errors.New("it does not speak HTTP/2")

func (d *decoded) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if !d.follow.Follow(p[:n]) {
		return 0, errFrames
	}
	return n, err
}

func (d *decoded) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Conn.Close()
}

// single is a net.Listener of one connection. It ends with the connection.
type single struct {
	conn     *decoded
	accepted bool
	once     sync.Once
	ended    chan struct{}
}

func (s *single) Accept() (net.Conn, error) {
	if !s.accepted {
		s.accepted = true
		return s.conn, nil
	}
	select {
	case <-s.conn.closed:
	case <-s.ended:
	}
	return nil, net.ErrClosed
}

func (s *single) Close() error {
	s.once.Do(func() { close(s.ended) })
	return nil
}

func (s *single) Addr() net.Addr { return s.conn.LocalAddr() }
