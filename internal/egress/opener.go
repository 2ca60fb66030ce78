package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

const (
	maxStreams   = 100             // requests at once on one connection (HTTP/2)
	idleRequests = 5 * time.Minute // that a connection may wait for its next request
)

// opener ends the TLS of connections whose requests the gate reads, and serves them. A gate that opens none has none.
type opener struct {
	gate      *Gate
	authority *authority
	server    *http.Server
	accepted  chan net.Conn
	closed    chan struct{}
	closing   sync.Once
}

// opener returns the gate's opener; the first call makes it.
func (g *Gate) openerFor() (*opener, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return nil, errReset
	case g.opener != nil:
		return g.opener, nil
	case g.authority == nil:
		return nil, errors.New("the sandbox trusts no authority of the gate's")
	}
	a, err := openAuthority(g.authority)
	if err != nil {
		return nil, err
	}
	o := &opener{gate: g, authority: a, accepted: make(chan net.Conn), closed: make(chan struct{})}
	o.server = &http.Server{
		Handler:           o,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true, GetCertificate: o.certificate},
		ReadHeaderTimeout: slowTimeout,
		IdleTimeout:       idleRequests,
		MaxHeaderBytes:    maxHead,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:          log.New(io.Discard, "", 0), // of what sandboxes send
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, openedKey{}, c.(*tls.Conn).NetConn())
		},
	}
	g.opener = o
	g.work.Go(func() { _ = o.server.ServeTLS(o, "", "") }) // it ends when the server is closed, with the error that it was
	return o, nil
}

type openedKey struct{}

// Accept, Close and Addr implement net.Listener.
func (o *opener) Accept() (net.Conn, error) {
	select {
	case c := <-o.accepted:
		return c, nil
	case <-o.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (o *opener) Close() error {
	o.closing.Do(func() { close(o.closed) })
	return nil
}

// Addr is nobody's.
func (o *opener) Addr() net.Addr { return &net.TCPAddr{} }

// certificate is one for the name that the inspector has agreed with.
func (o *opener) certificate(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c := h.Conn.(*opened)
	if name, err := canonicalName(h.ServerName); err != nil || name != c.name {
		return nil, errHello
	}
	return o.authority.leaf(c.name)
}

// opened is the sandbox's end of a connection whose TLS ends in the gate.
type opened struct {
	net.Conn
	conn      *conn
	name      string
	first     []byte // read already
	transport *http.Transport
	ctx       context.Context // ends with the connection
	end       context.CancelFunc
}

func (c *opened) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// Close leaves the endpoint to the connection's owner, which waits until the sandbox has read all.
func (c *opened) Close() error {
	c.end()
	_ = c.Conn.SetDeadline(time.Unix(1, 0)) // ends reads and writes that wait
	c.conn.inner.endpoint.Shutdown(tcpip.ShutdownWrite)
	return nil
}

// serve handles a connection until it is over. first is what the sandbox has sent so far.
func (c *conn) serve(first []byte, name string) error {
	o, err := c.gate.openerFor()
	if err != nil {
		return err
	}
	in := &opened{Conn: gonet.NewTCPConn(&c.inner.queue, c.inner.endpoint), conn: c, name: name, first: first}
	in.ctx, in.end = context.WithCancel(c.gate.ctx)
	defer in.end()
	in.transport = c.transport(in)
	defer in.transport.CloseIdleConnections()
	select {
	case o.accepted <- in:
		<-in.ctx.Done()
	case <-c.gate.ctx.Done():
	}
	return nil
}

// transport reaches the server behind the name, at the address that the sandbox chose and over the connection that is open to it. More
// connections follow when that one has ended, or a server of HTTP/1 has several requests at once.
func (c *conn) transport(in *opened) *http.Transport {
	free := make(chan net.Conn, 1)
	free <- c.outer
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case outer := <-free:
			return &metered{Conn: outer, conn: c, release: func() {}}, nil
		default:
		}
		g := c.gate
		if reason := g.meter.take(g.rules.Load().bounds, time.Now()); reason != "" {
			return nil, refusal(reason)
		}
		outer, err := g.dial(ctx, "tcp", c.to.String())
		if err != nil {
			g.meter.release()
			return nil, err
		}
		m := &metered{Conn: outer, conn: c, release: g.meter.release}
		context.AfterFunc(in.ctx, func() { m.Close() })
		return m, nil
	}
	return &http.Transport{
		DialContext:           dial,
		TLSClientConfig:       &tls.Config{ServerName: in.name, RootCAs: c.gate.roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   dialTimeout,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // what is compressed passes as it is
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       idleRequests,
		MaxConnsPerHost:       maxStreams,
	}
}

// metered is a connection to a server, whose bytes count as those of the sandbox's connection.
type metered struct {
	net.Conn
	conn    *conn
	release func()
	closing sync.Once
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if used := m.conn.spend(&m.conn.received, &m.conn.gate.meter.received, n); used != nil {
		m.conn.cut(used.Error())
		return n, used
	}
	return n, err
}

func (m *metered) Write(b []byte) (int, error) {
	if used := m.conn.spend(&m.conn.sent, &m.conn.gate.meter.sent, len(b)); used != nil {
		m.conn.cut(used.Error())
		return 0, used
	}
	return m.Conn.Write(b)
}

// Close closes the connection once.
func (m *metered) Close() (err error) {
	m.closing.Do(func() {
		err = m.Conn.Close()
		m.release()
	})
	return err
}
