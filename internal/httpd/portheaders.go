package httpd

import (
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/duplex"
)

// passedOn are the headers of a program's answer that reach the client; a name that ends in "-" is a prefix. They
// describe the answer or restrict the page. All others are removed, as browsers, and proxies between this server and
// the client, act on some of them: they set cookies, open the origin to other sites, or send a file of the proxy's host
// (X-Accel-Redirect, X-Sendfile). Location has its own rule. A tunnel passes all bytes.
var passedOn = headerSet("Content-Type", "Content-Length", "Content-Encoding", "Content-Language", "Content-Range",
	"Content-Disposition", "Content-Digest", "Content-Md5", "Repr-Digest", "Digest", "Want-Content-Digest",
	"Accept", "Accept-Ranges", "Accept-Patch", "Accept-Post", "Allow", "Date", "Etag", "Last-Modified", "Link",
	"Retry-After", "Server", "Server-Timing", "Sourcemap", "Vary", "Warning", "Deprecation", "Sunset",
	"Ratelimit", "Ratelimit-", "X-Ratelimit-", "X-Total-Count", "X-Powered-By",
	"Content-Security-Policy", "Permissions-Policy", "Referrer-Policy", "X-Frame-Options", "X-Robots-Tag",
	"Sec-Websocket-", "Upgrade", // of a 101 or 426
	"Mcp-", "Grpc-", "Tus-", "Upload-", "Dav", "Lock-Token", "Docker-Content-Digest", "X-Elastic-Product")

// sitePassedOn are those of a program with its own origin: also cookies, CORS, caching and authentication.
var sitePassedOn = passedOn.with("Access-Control-", "Age", "Cache-Control", "Clear-Site-Data", "Cross-Origin-",
	"Expires", "Last-Event-Id", "Location", "Origin-Agent-Cluster", "Pragma", "Refresh", "Service-Worker-Allowed",
	"Set-Cookie", "Timing-Allow-Origin", "Www-Authenticate", "X-Request-Id", "X-Xsrf-Token", "X-Csrf-Token")

// passedTrailers are the trailers of a program's answer that reach the client, as in passedOn.
var passedTrailers = headerSet("Content-Digest", "Content-Md5", "Repr-Digest", "Digest", "Etag", "Server-Timing",
	"Grpc-")

// names are header names in canonical form, and prefixes of such names.
type names struct {
	whole    map[string]bool
	prefixes []string
}

func headerSet(list ...string) (n names) {
	n.whole = map[string]bool{}
	for _, name := range list {
		if strings.HasSuffix(name, "-") {
			n.prefixes = append(n.prefixes, name)
		} else {
			n.whole[name] = true
		}
	}
	return n
}

// with returns the names with others.
func (n *names) with(list ...string) names {
	all := headerSet(list...)
	maps.Copy(all.whole, n.whole)
	all.prefixes = append(all.prefixes, n.prefixes...)
	return all
}

// keep removes all other headers.
func (n *names) keep(h http.Header) {
	for name := range h {
		if !n.has(name) {
			delete(h, name)
		}
	}
}

func (n *names) has(name string) bool {
	for _, prefix := range n.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return n.whole[name]
}

// harden removes headers by which a program could act as this server. A browser shows the answer in a separate origin,
// without scripts.
func (p *passing) harden(r *http.Response) error {
	if r.StatusCode < 100 {
		return errors.New("not a status of HTTP")
	}
	if len(r.Trailer) > duplex.MaxHeadLines { // in HTTP/2, http.Server compares each announced name with all others
		return duplex.ErrHeadLines
	}
	location := r.Header.Get("Location")
	if p.OwnOrigin {
		sitePassedOn.keep(r.Header)
		ownCookies(r.Header)
	} else {
		passedOn.keep(r.Header)
	}
	passedTrailers.keep(r.Trailer)
	if r.StatusCode == http.StatusSwitchingProtocols {
		r.Header.Set("Connection", "Upgrade")
	} else {
		r.Body = &trailed{r.Body, r}
	}
	r.Header.Set(api.HeaderPort, strconv.Itoa(p.Port))
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == api.MediaEvents {
		r.Header.Set(headerNoBuffering, "no")
	}
	if p.OwnOrigin {
		return nil
	}
	r.Header.Add("Content-Security-Policy", "sandbox") // beside the program's own: a browser obeys all of them
	r.Header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if location != "" {
		if within, ok := p.relocate(location); ok {
			r.Header.Set("Location", within)
		} else {
			r.Header.Set(api.HeaderLocation, location)
		}
	}
	return nil
}

// ownCookies limits the cookies of a program to its own name: it must set none for the names of other programs.
func ownCookies(h http.Header) {
	cookies := h.Values("Set-Cookie")
	for i, cookie := range cookies {
		parts := strings.Split(cookie, ";") // the first is the cookie itself
		attributes := slices.DeleteFunc(parts[1:], func(part string) bool {
			name, _, _ := strings.Cut(part, "=")
			return strings.EqualFold(strings.TrimSpace(name), "domain")
		})
		cookies[i] = strings.Join(append(parts[:1], attributes...), ";")
	}
}

// trailed is the body of an answer. At its end net/http adds all trailers of the program, also unannounced ones.
type trailed struct {
	io.ReadCloser
	answer *http.Response
}

func (t *trailed) Close() error {
	err := t.ReadCloser.Close()
	passedTrailers.keep(t.answer.Trailer)
	return err
}
