package attack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/internal/egress/intercept"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The planted hosts, all at one public address, to which the gate connects on loopback instead.
const (
	secretHost  = "secret.test" // may receive the secret
	otherHost   = "other.test"  // may not
	plantedAt   = "93.184.215.14"
	plantedPort = "9" // keeps connections open

	plantedConnections = 256 // of all sandboxes with planted hosts
)

// The networks that attacks name.
const (
	networkFull    = "full"    // the gate of this host, without planted hosts
	networkPlanted = "planted" // the planted hosts, and a secret for one of them
)

// outside is what sandboxes with a network reach, and the gates to it.
type outside struct {
	*egress.Host // of this host

	planted *egress.Host
	secret  string
	tls     net.Listener
	plain   net.Listener
	server  *http.Server
	serving sync.WaitGroup

	mu         sync.Mutex // guards all below
	open, most int        // connections to the plain port
	used       int        // requests with the secret where it may be
	misused    []string   // and where it must not be
}

func newOutside(secret string) (_ *outside, err error) {
	public, err := intercept.NewAuthority()
	if err != nil {
		return nil, err
	}
	signer, err := intercept.NewSigner(public)
	if err != nil {
		return nil, err
	}
	o := &outside{Host: &egress.Host{}, secret: secret}
	config := &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return signer.Certificate(h.ServerName)
	}}
	if o.tls, err = tls.Listen("tcp", "127.0.0.1:0", config); err != nil {
		return nil, err
	}
	if o.plain, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, o.tls.Close())
	}
	o.server = &http.Server{Handler: o, ErrorLog: log.New(io.Discard, "", 0)}
	o.serving.Go(func() { _ = o.server.Serve(o.tls) }) // it only returns that it was closed
	o.serving.Go(o.keepOpen)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(public.Certificate)
	o.planted = &egress.Host{Options: egress.Options{Dial: o.dial, Resolve: resolvePlanted, Roots: roots},
		Limits: egress.Limits{Connections: plantedConnections}}
	return o, nil
}

// close ends the planted hosts.
func (o *outside) close() error {
	err := errors.Join(o.server.Close(), o.plain.Close())
	o.serving.Wait()
	return err
}

// Open implements sandbox.Gate.
func (o *outside) Open(end io.ReadWriteCloser, spec sandbox.Spec, owner string, failed func(any)) (sandbox.Passage,
	error) {
	if spec.Network.Mode == sandbox.NetworkFull {
		return o.Host.Open(end, spec, owner, failed)
	}
	return o.planted.Open(end, spec, owner, failed)
}

// policy returns the network of this name.
func (o *outside) policy(name string) sandbox.NetworkPolicy {
	switch name {
	case networkFull:
		return sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}
	case networkPlanted:
		return sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Inspect: []string{otherHost},
			Allow:   []string{otherHost, otherHost + ":" + plantedPort},
			Secrets: []sandbox.Secret{{Name: "TOKEN", Hosts: []string{secretHost}, Value: o.secret}}}
	}
	return sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}
}

// dial connects to the planted hosts only.
func (o *outside) dial(ctx context.Context, network, address string) (net.Conn, error) {
	to := map[string]net.Listener{net.JoinHostPort(plantedAt, "443"): o.tls,
		net.JoinHostPort(plantedAt, plantedPort): o.plain}[address]
	if to == nil {
		return nil, syscall.ECONNREFUSED
	}
	return (&net.Dialer{}).DialContext(ctx, network, to.Addr().String())
}

func resolvePlanted(_ context.Context, _, name string) ([]netip.Addr, error) {
	if !slices.Contains([]string{secretHost + ".", otherHost + "."}, name) {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(plantedAt)}, nil
}

// keepOpen keeps the connections to the plain port open until their clients close them.
func (o *outside) keepOpen() {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		c, err := o.plain.Accept()
		if err != nil {
			return
		}
		open.Go(func() {
			defer c.Close()
			o.count(1)
			defer o.count(-1)
			_, _ = io.Copy(io.Discard, c)
		})
	}
}

func (o *outside) count(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open += n
	o.most = max(o.most, o.open)
}

// ServeHTTP answers as a host that knows the secret, or that attacks its client.
func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.note(r)
	switch r.URL.Path {
	case "/known":
		o.repeat(w)
	case "/heads":
		o.floodHeads(w)
	default:
		fmt.Fprintf(w, "%s %v", r.Host, r.Header)
	}
}

// note records a request with the secret.
func (o *outside) note(r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, values := range r.Header {
		switch {
		case !strings.Contains(fmt.Sprint(values), o.secret):
		case name == "Authorization" && r.Host == secretHost:
			o.used++
		default:
			o.misused = append(o.misused, r.Host+" got it in "+name)
		}
	}
}

// repeat repeats the secret wherever an answer can have text.
func (o *outside) repeat(w http.ResponseWriter) {
	h := w.Header()
	fill := func() {
		h.Set("X-Known", o.secret)
		h.Set("X-Basic", base64.StdEncoding.EncodeToString([]byte("user:"+o.secret)))
		h.Set("X-"+o.secret, "1")
	}
	fill()
	w.WriteHeader(http.StatusEarlyHints)
	fill()
	h.Set("Trailer", "X-Late")
	half := len(o.secret) / 2
	fmt.Fprint(w, "known: ", o.secret[:half])
	_ = http.NewResponseController(w).Flush()
	fmt.Fprint(w, o.secret[half:], "\n")
	h.Set("X-Late", o.secret)
	h.Set(http.TrailerPrefix+"X-Later", o.secret)
}

// floodHeads sends headers until the client has enough.
func (o *outside) floodHeads(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
	for piece := []byte(strings.Repeat("a:\r\n", 4<<10)); err == nil; {
		_, err = c.Write(piece)
	}
}
