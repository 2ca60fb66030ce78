package intercept

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestVerifyCost: a server is verified once the sandbox may use CPU time, which is charged. Of the certificates of a
// hostile one, package x509 tries many.
func TestVerifyCost(t *testing.T) {
	var spent atomic.Int64
	s, c := serverFor(t, &spent)
	hostile := manyIssuers(t, 20)
	later := errors.New("later")
	s.config.Wait = func(context.Context) error { return later }
	if err := dialFor(t, s, c, hostile); !errors.Is(err, later) {
		t.Error(err)
	}
	bytes := spent.Swap(0)
	s.config.Wait = func(context.Context) error { return nil }
	err := dialFor(t, s, c, hostile)
	if charged := spent.Load(); err == nil || charged < 3*bytes {
		t.Errorf("%s were charged, %s of it for bytes: %v", time.Duration(charged), time.Duration(bytes), err)
	}
}

// TestManyCertificates: a server that sends many certificates is refused, before they are parsed.
func TestManyCertificates(t *testing.T) {
	var spent atomic.Int64
	s, c := serverFor(t, &spent)
	one, err := s.signer.Certificate("api.test")
	if err != nil {
		t.Fatal(err)
	}
	many := *one
	for size := len(one.Certificate[0]); size < maxHandshake; size += len(one.Certificate[0]) {
		many.Certificate = append(many.Certificate, one.Certificate[0])
	}
	if err := dialFor(t, s, c, many); err == nil || Explain(err) != string(manyCertificates) {
		t.Error(err)
	}
	many.Certificate = many.Certificate[:len(many.Certificate)*3/4]
	if err := dialFor(t, s, c, many); err != nil {
		t.Error(err)
	}
}

// TestVerify: a server needs a certificate of a known authority for its name.
func TestVerify(t *testing.T) {
	var spent atomic.Int64
	s, c := serverFor(t, &spent)
	for name, want := range map[string]string{"api.test": "", "other.test": "its certificate is for another name"} {
		certificate, err := s.signer.Certificate(name)
		if err != nil {
			t.Fatal(err)
		}
		reason := ""
		if err := dialFor(t, s, c, *certificate); err != nil {
			reason = Explain(err)
		}
		if reason != want {
			t.Errorf("%s: %q", name, reason)
		}
	}
	s.config.Roots = x509.NewCertPool()
	certificate, _ := s.signer.Certificate("api.test")
	if err := dialFor(t, s, c, *certificate); err == nil || !strings.Contains(Explain(err), "authority") {
		t.Error(err)
	}
}

// serverFor returns a server that trusts its own authority, and a connection to api.test.
func serverFor(t *testing.T, spent *atomic.Int64) (*Server, *Conn) {
	t.Helper()
	authority, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Certificate)
	spend := func(d time.Duration) { spent.Add(int64(d)) }
	s, err := NewServer(Config{Authority: authority, Roots: roots, Spend: spend,
		Wait: func(context.Context) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return s, &Conn{Name: "api.test", ctx: t.Context(), spend: spend}
}

// dialFor dials a server with a certificate.
func dialFor(t *testing.T, s *Server, c *Conn, certificate tls.Certificate) error {
	return dialWith(t, s, c, &tls.Config{Certificates: []tls.Certificate{certificate}})
}

// dialWith dials a server of TLS.
func dialWith(t *testing.T, s *Server, c *Conn, config *tls.Config) error {
	t.Helper()
	near := connectTo(t, config, func(server *tls.Conn) { _, _ = io.Copy(io.Discard, server) })
	defer near.Close()
	c.Dial = func(context.Context) (net.Conn, error) { return near, nil }
	_, err := s.dialTLS(t.Context(), c)
	return err
}

// connectTo returns a connection to a server of TLS, which ends with serve.
func connectTo(t *testing.T, config *tls.Config, serve func(*tls.Conn)) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer far.Close()
		serve(tls.Server(far, config))
	}()
	return near
}

// manyIssuers returns a certificate for api.test with so many others that could be its issuer by their name, and are
// not.
func manyIssuers(t *testing.T, count int) (out tls.Certificate) {
	t.Helper()
	issuer := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "issuer"},
		IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{"api.test"},
		NotAfter: time.Now().Add(time.Hour)}
	for i := range count + 1 {
		key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		made := issuer
		if i == 0 {
			made, out.PrivateKey = leaf, key
		}
		der, err := x509.CreateCertificate(rand.Reader, made, issuer, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		out.Certificate = append(out.Certificate, der)
	}
	return out
}
