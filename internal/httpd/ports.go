package httpd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// headerNoBuffering, with "no", makes nginx pass events on at once.
const headerNoBuffering = "X-Accel-Buffering"

// maxPortHeader is the most bytes of the headers of a program's answer, of duplex.MaxHeadLines.
const maxPortHeader = 64 << 10

// portSteps is the work of connecting to a program and passing on a request and an answer, besides their bytes.
const portSteps = 80

// PortTarget is a port of a sandbox, to which a request is passed on.
type PortTarget struct {
	Sandbox *engine.Sandbox
	Port    int
	Prefix  string // of the URL, escaped, before Tail, which is the path that the program receives
	Tail    string

	// OwnOrigin is set if the name in the Host header is of this port alone. Then the program is the site: its pages
	// may run scripts, set cookies and admit other sites. Prefix is "".
	OwnOrigin bool
	Host      string // with OwnOrigin: replaces the Host header, if not ""
}

// PassToPort passes a request on to a program in a sandbox, and its answer back.
func (s *Server) PassToPort(w *Response, r *http.Request, to PortTarget) error {
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		return Refuse(http.StatusMethodNotAllowed, sandbox.Invalid, r.Method+" is not passed on", "")
	}
	w.Steps(portSteps)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.Stopping(), cancel)()
	program, err := to.Sandbox.DialPort(ctx, to.Port)
	if err != nil {
		return PortError(err)
	}
	conn := duplex.NewSpeaksFirst(&duplex.BoundedHead{Conn: program.(duplex.Conn)})
	defer conn.Close()
	if to.OwnOrigin { // caching and types are the program's
		w.Header().Del("Cache-Control")
		w.Header().Del("X-Content-Type-Options")
	}
	defer w.PassOn(r)()
	var gone atomic.Bool
	defer WhenGone(r, func() { gone.Store(true); cancel() })()
	p := &passing{PortTarget: to, isKey: s.isKey}
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxPortHeader,
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	proxy := httputil.ReverseProxy{FlushInterval: -1, Rewrite: p.rewrite, ModifyResponse: p.harden,
		Transport:    once{transport, ctx},
		ErrorLog:     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, failed error) { err = failed }}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	switch {
	case err == nil:
		return nil
	case r.Context().Err() != nil || gone.Load():
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the client has left"}
	case to.Sandbox.Ended() != nil:
		return to.Sandbox.Ended()
	case errors.Is(err, duplex.ErrHeadLines):
		return Refuse(http.StatusBadGateway, sandbox.Unavailable,
			"the server on port "+strconv.Itoa(to.Port)+" answered with more than 500 lines of headers", "")
	}
	return Refuse(http.StatusBadGateway, sandbox.Unavailable,
		"the server on port "+strconv.Itoa(to.Port)+" did not answer in HTTP/1.1",
		"read the output of the program; for other protocols than HTTP, GET .../ports/"+strconv.Itoa(to.Port)+
			" with Upgrade: tcp opens a tunnel")
}

// PortError gives a port where nothing answers the status of a gateway.
func PortError(err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ETIMEDOUT)) {
		return &refusal{http.StatusBadGateway, &sandbox.Error{Kind: e.Kind, Msg: e.Op + ": " + e.Msg, Fix: e.Fix}, err}
	}
	return err
}

// once makes one request on a separate connection, so that a program cannot answer another's. Interim answers (1xx)
// are dropped, as they would come before the headers that keep a program from acting as this server: ReverseProxy
// learns of them by the request's own context.
type once struct {
	*http.Transport
	ctx context.Context
}

func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	return o.Transport.RoundTrip(r.WithContext(o.ctx))
}

// passing is one request to a program in a sandbox, and its answer. The program must not receive the server's
// credentials, and its answer must not act as this server.
type passing struct {
	PortTarget
	isKey func(secret string) bool // reports whether a credential is one of this server
}

// ours are headers of a request that the program does not receive: credentials for this server or a proxy before it,
// and headers that describe them.
var ours = []string{"Authorization", "X-Api-Key", "Cookie", "Referer", "Forwarded", "X-Real-Ip", "Expect"}

// oursAlways are those that no program receives.
var oursAlways = []string{"X-Api-Key", "X-Access-Token", "E2b-Traffic-Access-Token", "E2b-Sandbox-Id",
	"E2b-Sandbox-Port"}

func (p *passing) host() string { return net.JoinHostPort("localhost", strconv.Itoa(p.Port)) }

func (p *passing) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	out.URL = p.target()
	out.URL.RawQuery, out.URL.ForceQuery = plainQuery(pr.In.URL.RawQuery), pr.In.URL.ForceQuery
	for _, name := range oursAlways {
		out.Header.Del(name)
	}
	for name := range out.Header {
		if strings.HasPrefix(name, "X-Forwarded-") {
			out.Header.Del(name)
		}
	}
	dropOffered(out.Header)
	dropUpgrade(out.Header)
	if p.OwnOrigin {
		p.asSite(pr)
		return
	}
	out.Host = out.URL.Host
	for _, name := range ours {
		out.Header.Del(name)
	}
	out.Header.Set("X-Forwarded-Prefix", p.Prefix)
	if out.Header.Get("Origin") != "" { // it is this server's, as the guard has checked; programs compare it with Host
		out.Header.Set("Origin", "http://"+p.host())
	}
}

// plainQuery escapes blanks: a query of HTTP/2 may have them, and a line of HTTP/1.1 could be read in two ways. Package
// url checks no query.
func plainQuery(q string) string { return strings.ReplaceAll(q, " ", "%20") }

// dropUpgrade removes an offer of another protocol, except websocket, so that the program answers in HTTP/1.1. After a
// switch to h2c, which curl and Java's HttpClient offer, or to TLS, the client would send its further requests to this
// server, with its key, to the program.
func dropUpgrade(h http.Header) {
	if !strings.EqualFold(h.Get("Upgrade"), "websocket") { // ReverseProxy has refused what is not ASCII
		h.Del("Upgrade")
		h.Del("Connection")
	}
}

// dropOffered removes keys from the sub-protocols that a client offers.
func dropOffered(h http.Header) {
	const header = "Sec-Websocket-Protocol"
	var kept []string
	for _, value := range h.Values(header) {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); !strings.HasPrefix(name, api.KeyProtocol) {
				kept = append(kept, name)
			}
		}
	}
	if h.Del(header); kept != nil {
		h.Set(header, strings.Join(kept, ", "))
	}
}

// asSite completes a request to a program with its own origin. The program receives its own cookies and credentials.
func (p *passing) asSite(pr *httputil.ProxyRequest) {
	out := pr.Out
	if out.Host = pr.In.Host; p.Host != "" {
		out.Host = p.Host
	}
	for _, name := range []string{"Forwarded", "X-Real-Ip", "Expect"} {
		out.Header.Del(name)
	}
	for _, value := range out.Header.Values("Authorization") {
		if _, secret, _ := strings.Cut(value, " "); p.isKey(strings.TrimLeft(secret, " ")) {
			out.Header.Del("Authorization")
		}
	}
	pr.SetXForwarded()
}

// target is the URL of the request as the program knows it.
func (p *passing) target() *url.URL {
	plain, err := url.PathUnescape(p.Tail)
	if err != nil {
		plain = p.Tail
	}
	return &url.URL{Scheme: "http", Host: p.host(), Path: plain, RawPath: p.Tail}
}

// relocate turns a program's redirect into a path of this server. ok is false for a redirect out of the program: a
// client that follows it would send its key, method and body to another endpoint of this server, or to a stranger.
func (p *passing) relocate(location string) (within string, ok bool) {
	to, err := p.target().Parse(location)
	if err != nil || to.Opaque != "" || to.User != nil || to.Scheme != "http" && to.Scheme != "https" {
		return "", false
	}
	port := to.Port()
	if port == "" && to.Scheme == "http" {
		port = "80"
	}
	if port != strconv.Itoa(p.Port) {
		return "", false
	}
	switch to.Hostname() {
	case "localhost", "127.0.0.1", "::1", "0.0.0.0":
	default:
		return "", false
	}
	path := to.EscapedPath()
	if path == "" {
		path = "/"
	}
	// Browsers decode %2e to a dot, and some proxies before this server decode %2f to a slash.
	plain, err := url.PathUnescape(path)
	if err != nil || slices.ContainsFunc(strings.FieldsFunc(plain, isSlash), isDots) {
		return "", false
	}
	if within = p.Prefix + path; strings.HasPrefix(within, "//") { // of a path without a prefix: the name of a host
		return "", false
	}
	if to.RawQuery != "" || to.ForceQuery {
		within += "?" + plainQuery(to.RawQuery)
	}
	if fragment := to.EscapedFragment(); fragment != "" {
		within += "#" + fragment
	}
	return within, true
}

func isSlash(c rune) bool { return c == '/' || c == '\\' }

func isDots(segment string) bool { return segment == "." || segment == ".." }
