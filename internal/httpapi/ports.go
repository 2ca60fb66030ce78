package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxPortHeader is the most bytes of the headers of a program's answer.
const maxPortHeader = 64 << 10

// tunnelProtocol is the value of Upgrade for a tunnel, which carries the bytes of a TCP connection.
const tunnelProtocol = "tcp"

// toPort is the handler of any request to /v1/sandboxes/{id}/ports/{port}/{path...}.
func (a *apiV1) toPort(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		return httpd.Refuse(http.StatusMethodNotAllowed, sandbox.Invalid, r.Method+" is not passed on", "")
	}
	port, err := portOf(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.Stopping(), cancel)()
	program, err := s.DialPort(ctx, port)
	if err != nil {
		return portError(err)
	}
	conn := duplex.NewSpeaksFirst(program.(duplex.Conn))
	defer conn.Close()
	defer w.PassOn(r)()
	p := &passing{port: port, prefix: strings.TrimSuffix(r.URL.EscapedPath(), "/-"), tail: httpd.Tail(r)}
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxPortHeader,
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	proxy := httputil.ReverseProxy{FlushInterval: -1, Rewrite: p.rewrite, ModifyResponse: p.harden,
		Transport:    once{transport, ctx},
		ErrorLog:     slog.NewLogLogger(a.Log().Handler(), slog.LevelDebug),
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, failed error) { err = failed }}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	switch {
	case err == nil:
		return nil
	case r.Context().Err() != nil:
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the client has left"}
	case s.Ended() != nil:
		return s.Ended()
	}
	return httpd.Refuse(http.StatusBadGateway, sandbox.Unavailable,
		"the server on port "+strconv.Itoa(port)+" did not answer in HTTP/1.1",
		"read the output of the program; for other protocols than HTTP, GET .../ports/"+strconv.Itoa(port)+
			" with Upgrade: tcp opens a tunnel")
}

func portOf(r *http.Request) (int, error) {
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil || port < 1 || port > 65535 {
		return 0, sandbox.Invalidf("port", "%.20q is not a number from 1 to 65535", r.PathValue("port"))
	}
	return port, nil
}

// portError gives a port where nothing answers the status of a gateway.
func portError(err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ETIMEDOUT)) {
		return httpd.Refuse(http.StatusBadGateway, e.Kind, e.Op+": "+e.Msg, e.Fix)
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
	port   int
	prefix string // of the URL, escaped, before the path that the program receives
	tail   string
}

// ours are headers of a request that the program does not receive: credentials for this server or a proxy before it,
// and headers that describe them.
var ours = []string{"Authorization", "X-Api-Key", "Cookie", "Referer", "Forwarded", "X-Real-Ip", "Expect"}

func (p *passing) host() string { return net.JoinHostPort("localhost", strconv.Itoa(p.port)) }

func (p *passing) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	out.URL = p.target()
	out.URL.RawQuery, out.URL.ForceQuery = pr.In.URL.RawQuery, pr.In.URL.ForceQuery
	out.Host = out.URL.Host
	for _, name := range ours {
		out.Header.Del(name)
	}
	for name := range out.Header {
		if strings.HasPrefix(name, "X-Forwarded-") {
			out.Header.Del(name)
		}
	}
	out.Header.Set("X-Forwarded-Prefix", p.prefix)
	if out.Header.Get("Origin") != "" { // it is this server's, as the guard has checked; programs compare it with Host
		out.Header.Set("Origin", "http://"+p.host())
	}
}

// target is the URL of the request as the program knows it.
func (p *passing) target() *url.URL {
	plain, err := url.PathUnescape(p.tail)
	if err != nil {
		plain = p.tail
	}
	return &url.URL{Scheme: "http", Host: p.host(), Path: plain, RawPath: p.tail}
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
	if port != strconv.Itoa(p.port) {
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
	for segment := range strings.SplitSeq(path, "/") {
		// Browsers take %2e for a dot.
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." {
			return "", false
		}
	}
	within = p.prefix + path
	if to.RawQuery != "" || to.ForceQuery {
		within += "?" + strings.ReplaceAll(to.RawQuery, " ", "%20") // package url checks no query
	}
	if fragment := to.EscapedFragment(); fragment != "" {
		within += "#" + fragment
	}
	return within, true
}

// tunnel is GET /v1/sandboxes/{id}/ports/{port}, which switches to the bytes of a TCP connection.
func (a *apiV1) tunnel(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	port, err := portOf(r)
	if err != nil {
		return err
	}
	upgrades := hasToken(r.Header.Values("Connection"), "upgrade")
	if !upgrades || !strings.EqualFold(r.Header.Get("Upgrade"), tunnelProtocol) {
		w.Header().Set("Upgrade", tunnelProtocol)
		return httpd.Refuse(http.StatusUpgradeRequired, sandbox.Invalid, "this path is a tunnel to the port",
			"add a slash for the root of the HTTP server there; a tunnel requires Connection: Upgrade and Upgrade: "+
				tunnelProtocol)
	}
	program, err := s.DialPort(r.Context(), port)
	if err != nil {
		return portError(err)
	}
	defer program.Close()
	conn, _, err := w.Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(a.Stopping(), func() { conn.Close() })()
	client, ok := conn.(duplex.Conn)
	if !ok {
		return nil // no listener of ours
	}
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + tunnelProtocol + "\r\n" +
		api.HeaderPort + ": " + strconv.Itoa(port) + "\r\nX-Request-Id: " + w.ID + "\r\n\r\n"
	if _, err := conn.Write([]byte(head)); err != nil {
		return nil // the client has left
	}
	duplex.Join(client, program.(duplex.Conn))
	return nil
}

func hasToken(values []string, token string) bool {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
	}
	return false
}
