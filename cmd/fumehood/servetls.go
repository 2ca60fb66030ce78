package main

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/crypto/acme"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// doorFlags are the address, the names, the keys and the certificate of the server.
type doorFlags struct {
	listen        string
	noLocalSocket bool
	keyFile       string
	hosts         []string

	domain    string
	cert, key string // files

	acme acmeFlags

	checkConfig bool // check the settings and end
}

func (f *doorFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "listen", defaultListen,
		"`ADDRESS`: host:port, or unix:PATH (default "+defaultListen+")")
	flags.BoolVar(&f.noLocalSocket, "no-local-socket", false, "do not also listen on the socket in the run folder")
	flags.StringVar(&f.keyFile, "api-key-file", "", "`FILE` of API keys, from fumehood keys create")
	flags.StringSliceVar(&f.hosts, "host", nil, "accept this `NAME` in the Host header, besides loopback (repeatable)")
	flags.StringVar(&f.domain, "domain", "", "also serve api.`NAME`, and each port of a sandbox as PORT-ID.NAME")
	flags.StringVar(&f.cert, "tls-cert", "", "serve HTTPS with this certificate `FILE` (PEM), and its chain")
	flags.StringVar(&f.key, "tls-key", "", "`FILE` of the certificate's private key (PEM)")
	f.acme.add(flags)
	flags.BoolVar(&f.checkConfig, "check-config", false, "check the settings and their files, and end")
	_ = flags.SetAnnotation("check-config", settings.NoSetting, nil)
}

// maxDomain leaves room in a name, of at most 253 characters (RFC 1035), for the label of a port.
const maxDomain = 200

var validDomain = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
})

// check checks the flags, and puts the domain into lower case.
func (f *doorFlags) check() error {
	f.domain = strings.ToLower(f.domain)
	if f.domain != "" && (len(f.domain) > maxDomain || !validDomain().MatchString(f.domain)) {
		return sandbox.Invalidf("--domain", "%.80q is not a domain name, such as sandbox.example.org", f.domain)
	}
	if (f.cert == "") != (f.key == "") {
		return sandbox.Invalidf("--tls-cert", "a certificate needs its key: give --tls-cert and --tls-key")
	}
	return f.acme.check(f.cert)
}

// secure reports whether the server serves HTTPS.
func (f *doorFlags) secure() bool { return f.cert != "" || len(f.acme.domains) > 0 }

// secured is the listener of a server, with TLS if there is a certificate.
type secured struct {
	net.Listener
	certifier *certifier // nil without ACME
}

// secure adds TLS to a listener, if there is a certificate. TLS 1.2 is the least version. Clients that offer HTTP/2 get
// it. Those of WebSockets offer HTTP/1.1.
func (a *app) secure(l net.Listener, f *doorFlags, kept *state) (*secured, error) {
	l = httpd.Listen(l)
	config := &tls.Config{NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
		CurvePreferences: duplex.Curves}
	switch {
	case f.cert != "":
		c := &certificate{cert: f.cert, key: f.key, warn: func(err error) {
			a.warn("cannot read the renewed certificate; the old one stays: %s", terminal.OneLine(err.Error()))
		}}
		if err := c.load(); err != nil {
			return nil, hostfiles.Error("--tls-cert", err)
		}
		config.GetCertificate = c.current
	case len(f.acme.domains) > 0:
		c, err := a.openCertifier(&f.acme, filepath.Dir(kept.logs))
		if err != nil {
			return nil, err
		}
		config.GetCertificate = c.certificate
		config.NextProtos = append(config.NextProtos, acme.ALPNProto) // the first challenge that autocert tries
		return &secured{tls.NewListener(l, config), c}, nil
	default:
		return &secured{l, nil}, nil
	}
	return &secured{tls.NewListener(l, config), nil}, nil
}

// obtain requests missing certificates. The server is serving.
func (s *secured) obtain() {
	if s.certifier != nil {
		s.certifier.obtain(s.Addr())
	}
}

// stop stops requesting certificates. The owner of the inner listener closes that.
func (s *secured) stop() error {
	if s.certifier == nil {
		return nil
	}
	return s.certifier.Close()
}

// certificate is a certificate in files, which are read again when they have changed. Its methods are safe for
// concurrent use.
type certificate struct {
	cert, key string
	warn      func(error)

	mu      sync.Mutex // guards all below
	loaded  *tls.Certificate
	changed time.Time // modification time of cert when it was last loaded
	warned  time.Time // modification time of cert at the last warning
	checked time.Time
}

// checkCertificate is how often a change of the certificate is looked for.
const checkCertificate = time.Minute

// load reads the files.
func (c *certificate) load() error {
	info, err := os.Stat(c.cert)
	if err != nil {
		return err
	}
	cert, err := hostfiles.ReadTrusted(c.cert, true)
	if err != nil {
		return err
	}
	key, err := hostfiles.ReadTrusted(c.key, true)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	c.loaded, c.changed, c.checked = &pair, info.ModTime(), time.Now()
	return nil
}

// current is GetCertificate of tls.Config.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < checkCertificate {
		return c.loaded, nil
	}
	c.checked = time.Now()
	if info, err := os.Stat(c.cert); err == nil && !info.ModTime().Equal(c.changed) {
		// An error may be temporary: the key may be replaced after the certificate.
		if err := c.load(); err != nil && !info.ModTime().Equal(c.warned) {
			c.warned = info.ModTime()
			c.warn(err)
		}
	}
	return c.loaded, nil
}
