package httpd

import (
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// checkHost refuses an unknown Host header, against DNS rebinding: to the browser, a page whose name was rebound to
// this address has our origin, but the page cannot choose the Host header.
//
// With keys, such a page has none. So then the check applies only if names are configured.
func (s *Server) checkHost(r *http.Request) error {
	if len(s.config.Hosts) == 0 && s.config.Keys.Required() {
		return nil
	}
	if s.Label(r) != "" {
		return nil
	}
	host := hostName(r.Host)
	isHost := func(name string) bool { return strings.EqualFold(name, host) }
	if isLoopback(host) || slices.ContainsFunc(s.config.Hosts, isHost) {
		return nil
	}
	return Refuse(http.StatusMisdirectedRequest, sandbox.Invalid,
		"the name in the Host header is not one of this server", "use localhost, or start the server with --host NAME")
}

// checkHeader refuses a request with many lines of headers, each of which takes some 100 bytes while it is served,
// however short it is.
func checkHeader(h http.Header) error {
	lines := 0
	for _, values := range h {
		lines += len(values)
	}
	if lines > duplex.MaxHeadLines {
		return Refuse(http.StatusRequestHeaderFieldsTooLarge, sandbox.TooLarge,
			"the request has more than 500 lines of headers", "")
	}
	return nil
}

// Label returns the one label before the server's domain in the Host header, in lower case, or "" for other names.
func (s *Server) Label(r *http.Request) string {
	if s.config.Domain == "" {
		return ""
	}
	label, ok := strings.CutSuffix(strings.ToLower(hostName(r.Host)), "."+s.config.Domain)
	if !ok || strings.Contains(label, ".") {
		return ""
	}
	return label
}

// hostName is the host of "host", "host:port", "[v6]" or "[v6]:port". A final dot means the same name (RFC 1034).
func hostName(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return strings.TrimSuffix(host, ".")
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]"), ".")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// checkOrigin refuses requests that a page of another site makes a browser send, for reading too. There are no CORS
// headers.
func checkOrigin(r *http.Request) error {
	ok := true
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		u, err := url.Parse(origins[0])
		ok = len(origins) == 1 && err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		ok = ok && (site == "same-origin" || site == "none")
	}
	if !ok {
		return Refuse(http.StatusForbidden, sandbox.Unauthorized, "pages of other sites may not use this server", "")
	}
	return nil
}

// checkContentType accepts JSON. For curl -d, it also accepts a form type or none, but never from a browser, where a
// page may send those types to any site without a preflight.
func checkContentType(r *http.Request) error {
	browser := false
	for name := range r.Header {
		browser = browser || name == "Origin" || strings.HasPrefix(name, "Sec-Fetch-")
	}
	header := r.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(header)
	switch {
	case err == nil && kind == "application/json":
		return nil
	case !browser && (header == "" || err == nil && kind == "application/x-www-form-urlencoded"):
		return nil
	}
	return Refuse(http.StatusUnsupportedMediaType, sandbox.Invalid, "the body must be JSON",
		"send Content-Type: application/json")
}

// CheckListen refuses an address that other machines can reach if the server has no keys. addr is "host:port", or
// "unix:" and the path of a socket, whose permissions protect it.
func CheckListen(addr string, keys *Keyring) error {
	if keys.Required() || strings.HasPrefix(addr, "unix:") {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return sandbox.Invalidf("listen", "%q is not an address; write it like localhost:7070, or unix:PATH", addr)
	}
	if isLoopback(host) {
		return nil
	}
	e := sandbox.Invalidf("listen", "%s can be reached from other machines, and no API key is set", addr)
	e.Fix = "set an API key, or listen on localhost"
	return e
}
