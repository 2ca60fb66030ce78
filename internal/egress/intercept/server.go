package intercept

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	maxStreams  = 100             // requests at once on one connection (HTTP/2)
	idleTimeout = 5 * time.Minute // that a connection may wait for its next request
)

// Config configures a Server.
type Config struct {
	Authority *sandbox.Authority
	Roots     *x509.CertPool // servers are verified by; nil is those of the host
	Log       func(sandbox.NetworkAttempt)
	Spend     func(time.Duration)         // notes CPU time that a request takes
	Wait      func(context.Context) error // waits until a request may take CPU time
	Misplaced func(sandbox.NetworkMisplaced)

	// Begin counts a request, and End ends it. Begin returns false once the gate is closed.
	Begin func() bool
	End   func()

	// Reserve claims the memory of a request, or returns the reason of a refusal. Release gives it back.
	Reserve func(bytes int64) (reason string)
	Release func(bytes int64)

	Failed func(panicked any) // receives a panic in the handling of a request
}

// Server ends TLS with certificates of the sandbox's authority, and serves the requests.
type Server struct {
	config   Config
	signer   *Signer
	http     *http.Server
	tls      *tls.Config
	listener listener

	turns turns // of cleaning answers and verifying servers

	mu      sync.Mutex // guards all below
	cleaner *cleaner
	cleans  *rules.Rules // those that cleaner is for
}

// NewServer makes a server. Its connections are those that Serve is given.
func NewServer(c Config) (*Server, error) {
	signer, err := NewSigner(c.Authority)
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, signer: signer, listener: listener{accepted: make(chan net.Conn)}}
	s.turns.Config = &s.config
	s.listener.ctx, s.listener.end = context.WithCancel(context.Background())
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true, CurvePreferences: duplex.Curves,
		GetCertificate: s.certificate, NextProtos: []string{protocolHTTP2, protocolHTTP1}}
	s.http = &http.Server{
		Handler:                      http.HandlerFunc(s.handle),
		DisableGeneralOptionsHandler: true, // handle decides about OPTIONS *
		Protocols:                    &http.Protocols{},
		ReadHeaderTimeout:            sniff.HeadTimeout,
		IdleTimeout:                  -1, // see expire
		MaxHeaderBytes:               sniff.MaxHead,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerStream: uploadWindow, MaxReceiveBufferPerConnection: uploadWindow},
		ErrorLog: log.New(io.Discard, "", 0), // sandboxes cause the errors
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, connOf(c))
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if one, ok := c.(*requestHead); ok && state == http.StateIdle {
				one.next()
			}
			connOf(c).expire(c, state)
		},
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetUnencryptedHTTP2(true) // TLS has ended before
	return s, nil
}

type connKey struct{}

// connOf returns the connection of one of http.Server.
func connOf(c net.Conn) *Conn {
	if one, ok := c.(*requestHead); ok {
		return one.conn
	}
	return c.(*frames).conn
}

// expire closes a connection that stays idle. net/http's own timer outlives a connection of HTTP/2 that ends with open
// streams, and with it all of its requests.
func (c *Conn) expire(conn net.Conn, state http.ConnState) {
	switch {
	case state != http.StateIdle && c.idle != nil:
		c.idle.Stop()
	case state == http.StateIdle && c.idle != nil:
		c.idle.Reset(idleTimeout)
	case state == http.StateIdle:
		c.idle = time.AfterFunc(idleTimeout, func() { conn.Close() })
	}
}

// Run serves connections until Close.
func (s *Server) Run() { _ = s.http.Serve(&s.listener) } // it only returns that it was closed

// Close ends all connections.
func (s *Server) Close() { _ = s.http.Close() } // which the gate has reset

// cleanerFor returns the cleaner for the secrets of a policy.
func (s *Server) cleanerFor(policy *rules.Rules) *cleaner {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cleans != policy {
		began := time.Now()
		s.cleaner, s.cleans = &cleaner{newFinder(policy.Hidden), &s.turns}, policy
		s.config.Spend(time.Since(began))
	}
	return s.cleaner
}

// listener is a net.Listener of the connections that Serve is given.
type listener struct {
	accepted chan net.Conn
	ctx      context.Context
	end      context.CancelFunc
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.end()
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// certificate returns a certificate for the name that the gate has checked.
func (s *Server) certificate(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c := h.Conn.(*Conn)
	if name, err := rules.CanonicalName(h.ServerName); err != nil || name != c.Name {
		return nil, sniff.ErrHello
	}
	return s.signer.Certificate(c.Name)
}

// Conn is the sandbox's end of a connection whose TLS ends here. Its owner closes the embedded connection, once the
// sandbox has read everything.
type Conn struct {
	duplex.Conn
	Name   string         // of the server, canonical
	To     netip.AddrPort // of the server
	Policy func() (*rules.Rules, rules.Destination)
	Dial   func(context.Context) (net.Conn, error) // connects to the server

	transport *http.Transport
	spend     func(time.Duration)
	ctx       context.Context // ends with the connection
	end       context.CancelFunc
	idle      *time.Timer // closes it if it stays idle; nil before it was idle
}

// Read charges the bytes, of which most may be small frames of HTTP/2.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.spend(time.Duration(n) * byteTime)
	return n, err
}

// Close ends reads and writes.
func (c *Conn) Close() error {
	c.end()
	_ = c.SetDeadline(time.Unix(1, 0)) // ends reads and writes that wait
	return c.CloseWrite()
}

// Serve serves a connection until it or the context ends.
func (s *Server) Serve(ctx context.Context, c *Conn) {
	c.ctx, c.end = context.WithCancel(ctx)
	c.spend = s.config.Spend
	defer c.end()
	inside, err := s.handshake(c)
	if err != nil {
		inside.Close()
		return
	}
	c.transport = s.newTransport(c)
	defer c.transport.CloseIdleConnections()
	select {
	case s.listener.accepted <- inside:
		<-c.ctx.Done()
	case <-ctx.Done():
	}
}

// handshake ends the TLS of a connection of the sandbox.
func (s *Server) handshake(c *Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, handshakeTimeout)
	defer cancel()
	inside := tls.Server(c, s.tls)
	if err := inside.HandshakeContext(ctx); err != nil {
		return inside, err
	}
	if inside.ConnectionState().NegotiatedProtocol == protocolHTTP2 {
		return newFrames(inside, c), nil
	}
	return &requestHead{Conn: inside, conn: c, log: func(reason string) {
		s.config.Log(sandbox.NetworkAttempt{Time: time.Now(), Protocol: sandbox.ProtocolHTTPS, Name: c.Name,
			Address: c.To.Addr(), Port: c.To.Port(), Reason: reason})
	}}, nil
}
