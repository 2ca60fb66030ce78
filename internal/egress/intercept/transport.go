package intercept

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// The CPU time of bytes that are read. A frame of HTTP/2 of 9 to 17 bytes takes one to five microseconds, the bytes of
// a body less than a tenth of that, so most is refunded for them.
const (
	byteTime   = 100 * time.Nanosecond
	bodyRefund = 90 * time.Nanosecond
	packetTime = 8 * time.Microsecond
	fieldTime  = 500 * time.Nanosecond // of a field of an answer, which HTTP/2 may write in a byte
	headTime   = 20 * time.Nanosecond  // of a byte of a field: of Connection, net/http reads each name
)

const noStatus rules.Refusal = "its answer has a status that is not one of HTTP"

// refunding refunds the bytes of the bodies of answers, as they came, and checks their heads.
type refunding struct {
	http.RoundTripper
	fields *answerFields
}

func (t refunding) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	err = t.fields.add(answer.Header)
	switch {
	case err != nil:
	case answer.StatusCode < 100 || answer.StatusCode > 999:
		err = noStatus // http.Server panics at it
	case len(answer.Trailer) > maxHeadLines:
		err = tooLarge // in HTTP/2, http.Server compares each announced name with all others
	}
	if err != nil {
		answer.Body.Close()
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		answer.Body = &answerBody{refundedBody{answer.Body, t.fields.spend}, answer, t.fields}
	}
	return answer, nil
}

// answerBody is the body of an answer. It drops trailers with which the answer has too many fields.
type answerBody struct {
	refundedBody
	answer *http.Response
	fields *answerFields
}

func (b *answerBody) Close() error {
	err := b.refundedBody.Close()
	if b.fields.add(b.answer.Trailer) != nil {
		clear(b.answer.Trailer)
	}
	return err
}

type refundedBody struct {
	io.ReadCloser
	spend func(time.Duration)
}

func (b *refundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.spend(-time.Duration(n) * bodyRefund)
	return n, err
}

// Bounds of HTTP/2, so that a stream holds at most streamWindow of an answer that the sandbox does not read, and a
// server that stops in the midst of a frame is found.
const (
	streamWindow = 256 << 10
	uploadWindow = 64 << 10 // of a request that the server does not read
	maxFrame     = 16 << 10 // the least allowed (RFC 9113, section 4.2)
	answerTable  = 128      // of the fields that a byte may stand for (RFC 7541, section 2.3.2): each costs CPU time
	pingAfter    = 30 * time.Second
	pingTimeout  = 15 * time.Second
)

const (
	handshakeTimeout = 10 * time.Second
	protocolHTTP1    = "http/1.1"
	protocolHTTP2    = "h2" // in ALPN (RFC 9113, section 3.1)
)

// newTransport makes the transport of the requests of one connection.
//
// A connection of HTTP/1 carries one request, and the server may speak only after it: http.Transport prints other bytes
// with package log, and they may have a secret. Nor can an answer reach another request.
func (s *Server) newTransport(c *Conn) *http.Transport {
	return &http.Transport{
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return s.dialTLS(ctx, c)
		},
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   -1,   // ends connections of HTTP/1 after a request
		DisableCompression:    true, // compressed bodies pass unchanged
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       idleTimeout,
		MaxConnsPerHost:       maxStreams,

		MaxResponseHeaderBytes: maxAnswerHead + 8<<10, // answerHead ends before, with a reason
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: streamWindow, MaxReadFrameSize: maxFrame,
			MaxDecoderHeaderTableSize: answerTable, SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// websocketKey marks the context of a request that needs HTTP/1: http.Transport would do so itself.
type websocketKey struct{}

func markWebsocket(r *http.Request) *http.Request {
	if !isWebsocket(r.Header.Get("Upgrade")) {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), websocketKey{}, true))
}

// dialTLS connects to the server of a connection and shakes hands.
func (s *Server) dialTLS(ctx context.Context, c *Conn) (net.Conn, error) {
	raw, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{ServerName: c.Name, MinVersion: tls.VersionTLS12,
		CurvePreferences:   duplex.Curves,
		InsecureSkipVerify: true, // VerifyConnection verifies the server
		NextProtos:         []string{protocolHTTP2, protocolHTTP1}}
	if ctx.Value(websocketKey{}) != nil {
		config.NextProtos = nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	config.VerifyConnection = func(state tls.ConnectionState) error {
		return s.verify(ctx, c.Name, state.PeerCertificates)
	}
	server := tls.Client(raw, config)
	if err := server.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	raw.shaken = true
	if server.ConnectionState().NegotiatedProtocol == protocolHTTP2 {
		return server, nil
	}
	return duplex.NewSpeaksFirst(&answerHead{Conn: server}), nil
}

// verify verifies the certificates of a server for its name, as package tls does, but in its turn: package x509 tries
// 100 signatures of a hostile server, a third of a second of CPU time.
func (s *Server) verify(ctx context.Context, name string, sent []*x509.Certificate) error {
	options := x509.VerifyOptions{DNSName: name, Roots: s.config.Roots, Intermediates: x509.NewCertPool()}
	for _, one := range sent[1:] { // a server sends one at least
		options.Intermediates.AddCert(one)
	}
	var failed error
	if err := s.turns.work(ctx, func() { _, failed = sent[0].Verify(options) }); err != nil {
		return err
	}
	return failed
}

// dial connects to the server for as long as the sandbox's connection lasts. http.Transport itself would go on dialling
// after the request has ended.
func (c *Conn) dial(ctx context.Context) (*serverConn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	server, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &serverConn{Conn: server, spend: c.spend,
		forget: context.AfterFunc(c.ctx, func() { server.Close() })}, nil
}

// serverConn is a connection to the server, which ends with the sandbox's connection. Closing it forgets it there.
type serverConn struct {
	net.Conn
	spend  func(time.Duration)
	forget func() bool

	shaken    bool // the handshake has ended
	handshake int  // bytes of it
}

// maxHandshake is the most bytes that a server sends before the end of its handshake, almost all of them certificates:
// package tls would accept 256 KiB, and keep 14 times as much of them while the connection is open.
const maxHandshake = 40 << 10

const manyCertificates rules.Refusal = "its certificates have more than 40 KiB"

// Read charges the bytes, as Conn.Read does.
func (s *serverConn) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.spend(time.Duration(n) * byteTime)
	if s.shaken {
		return n, err
	}
	if s.handshake += n; s.handshake > maxHandshake {
		return 0, manyCertificates
	}
	return n, err
}

// Write charges a packet: net/http answers some frames of HTTP/2 with one each.
func (s *serverConn) Write(b []byte) (int, error) {
	s.spend(packetTime)
	return s.Conn.Write(b)
}

func (s *serverConn) Close() error {
	s.forget()
	return s.Conn.Close()
}
