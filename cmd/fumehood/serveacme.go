package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/time/rate"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// acmeFlags request certificates by the ACME protocol (RFC 8555) with its HTTP challenge.
type acmeFlags struct {
	domains   []string
	directory string // URL
	authority string // file with the certificates that the server at the directory may have
	email     string
	listen    string
}

const defaultChallenges = ":80"

func (f *acmeFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.domains, "acme-domain", nil,
		"serve HTTPS with a certificate for `NAME` by ACME (repeatable)")
	flags.StringVar(&f.directory, "acme-directory", acme.LetsEncryptURL,
		"`URL` of the ACME server (default Let's Encrypt)")
	flags.StringVar(&f.authority, "acme-ca", "", "`FILE` of the authority of that server's own certificate (PEM)")
	flags.StringVar(&f.email, "acme-email", "", "`ADDRESS` that the ACME server may write to")
	flags.StringVar(&f.listen, "acme-listen", defaultChallenges,
		"`ADDRESS` of its challenges, which it reaches as port 80 (default "+defaultChallenges+")")
}

// check checks the flags. cert is the file of a certificate, or "".
func (f *acmeFlags) check(cert string) error {
	switch {
	case len(f.domains) == 0:
		return nil
	case cert != "":
		return sandbox.Invalidf("--acme-domain", "cannot be combined with --tls-cert")
	}
	for _, name := range f.domains {
		if len(name) > maxDomain || !validDomain().MatchString(name) || net.ParseIP(name) != nil {
			return sandbox.Invalidf("--acme-domain", "%.80q is not a domain name in lower case", name)
		}
	}
	return nil
}

// certifier requests and renews certificates, and answers the challenges of the ACME server.
type certifier struct {
	app     *app
	manager autocert.Manager
	domains []string
	door    *http.Server
	tasks   sync.WaitGroup
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	mu     sync.Mutex // guards warned
	warned time.Time
}

// maxChallenges limits connections, so that strangers do not use up the descriptors of the server.
const maxChallenges = 64

// challengeRate limits connections per second, of one request each, so that strangers take little CPU time.
const challengeRate = 200

// challengeTimeout limits a request of the ACME server, or of a visitor who is redirected.
const challengeTimeout = 10 * time.Second

// openCertifier listens for challenges. The caller closes it.
func (a *app) openCertifier(f *acmeFlags, stateDir string) (*certifier, error) {
	client := &acme.Client{DirectoryURL: f.directory, UserAgent: "fumehood/" + versionOf()}
	if f.authority != "" {
		text, err := hostfiles.ReadTrusted(f.authority, true)
		if err != nil {
			return nil, hostfiles.Error("--acme-ca", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, sandbox.Invalidf("--acme-ca", "%s has no certificate", f.authority)
		}
		client.HTTPClient = &http.Client{Timeout: time.Minute,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Proxy: http.ProxyFromEnvironment}}
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "--acme-listen", Err: err,
			Fix: "free the port, or let a proxy pass port 80 on: --acme-listen 127.0.0.1:8080"}
	}
	c := &certifier{app: a, domains: f.domains, manager: autocert.Manager{Prompt: autocert.AcceptTOS, Client: client,
		Cache: autocert.DirCache(filepath.Join(stateDir, "acme")), Email: f.email,
		HostPolicy: autocert.HostWhitelist(f.domains...)}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.door = &http.Server{Handler: withoutPort(c.manager.HTTPHandler(nil)), ReadTimeout: challengeTimeout,
		WriteTimeout: challengeTimeout, IdleTimeout: challengeTimeout, MaxHeaderBytes: 8 << 10}
	httpd.BoundConnections(c.door, maxChallenges)
	c.door.SetKeepAlivesEnabled(false) // so the rate of connections is that of requests
	c.tasks.Go(func() {
		err := c.door.Serve(newPaced(listener))
		if !errors.Is(err, http.ErrServerClosed) {
			a.warn("ACME challenges are no longer answered: %s", terminal.OneLine(err.Error()))
		}
	})
	a.note(terminal.Plain, "ACME challenges are answered on %s", listener.Addr())
	return c, nil
}

// paced is a listener that accepts at most challengeRate connections per second.
type paced struct {
	net.Listener
	limit *rate.Limiter
}

func newPaced(l net.Listener) *paced { return &paced{l, rate.NewLimiter(challengeRate, 1)} }

func (l *paced) Accept() (net.Conn, error) {
	if err := l.limit.Wait(context.Background()); err != nil {
		return nil, err
	}
	return l.Listener.Accept()
}

// withoutPort removes the port from the Host header: a proxy, or an ACME server for tests, may reach another than 80.
func withoutPort(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			r.Host = host
		}
		next.ServeHTTP(w, r)
	})
}

// Close stops answering challenges.
func (c *certifier) Close() error {
	c.cancel()
	err := c.door.Close()
	c.tasks.Wait()
	return err
}

// warnEvery is how often failures to get a certificate are logged. Every handshake of a stranger may cause one.
const warnEvery = time.Minute

// maxServerName is the most bytes of a name (RFC 1035). In TLS one can have 64 KB, and autocert takes seconds to encode
// one of as many different letters beyond ASCII.
const maxServerName = 253

var errServerName = errors.New("the server name is too long")

// certificate is GetCertificate of tls.Config. It requests a missing certificate, and logs failures.
func (c *certifier) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(hello.ServerName) > maxServerName {
		return nil, errServerName
	}
	cert, err := c.manager.GetCertificate(hello)
	if err == nil || !slices.Contains(c.domains, hello.ServerName) {
		return cert, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.warned) > warnEvery {
		c.warned = time.Now()
		c.app.warn("no certificate for %s: %s", hello.ServerName, terminal.OneLine(err.Error()))
	}
	return nil, err
}

// obtain connects to the server by each name, so that certificates are requested before the first client comes.
func (c *certifier) obtain(server net.Addr) {
	c.tasks.Go(func() {
		for _, name := range c.domains {
			dialer := tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}} // to ourselves
			conn, err := dialer.DialContext(c.ctx, server.Network(), server.String())
			if err != nil {
				continue // certificate has logged it
			}
			_ = conn.Close() // nothing was sent
			c.app.note(terminal.Plain, "the certificate for %s is valid", name)
		}
	})
}
