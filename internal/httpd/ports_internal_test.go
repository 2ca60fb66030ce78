package httpd

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/duplex"
)

// TestDropOffered: a program receives the sub-protocols that its client offers, and no key among them.
func TestDropOffered(t *testing.T) {
	for given, want := range map[string]string{
		"chat, " + api.KeyProtocol + "c2VjcmV0, v2": "chat, v2", api.KeyProtocol + "c2VjcmV0": "",
		"chat": "chat", "": ""} {
		h := http.Header{}
		if given != "" {
			h.Set("Sec-WebSocket-Protocol", given)
		}
		if dropOffered(h); h.Get("Sec-WebSocket-Protocol") != want {
			t.Errorf("%q: %q", given, h)
		}
	}
}

// TestBlankQuery: a query with blanks, as HTTP/2 permits, makes no second version in the line of a request.
func TestBlankQuery(t *testing.T) {
	in := httptest.NewRequest(http.MethodGet, "/x", nil)
	in.URL.RawQuery = "a=b HTTP/1.0"
	pr := &httputil.ProxyRequest{In: in, Out: in.Clone(t.Context())}
	(&passing{PortTarget: PortTarget{Port: 8080, Tail: "/x"}}).rewrite(pr)
	if line := pr.Out.URL.RequestURI(); line != "/x?a=b%20HTTP/1.0" {
		t.Errorf("%q", line)
	}
}

// TestOwnCookies: the attribute Domain is removed in each spelling, and a cookie with that name stays.
func TestOwnCookies(t *testing.T) {
	for given, want := range map[string]string{"a=b; Domain=d.test; Path=/": "a=b; Path=/",
		"a=b;\tDOMAIN =.d.test": "a=b", "a=b;domain;Domain=x;Secure": "a=b;Secure",
		"domain=x; Domain=d.test; Path=/": "domain=x; Path=/", "": "", "a": "a"} {
		h := http.Header{"Set-Cookie": {given}}
		if ownCookies(h); h.Get("Set-Cookie") != want {
			t.Errorf("%q: %q", given, h)
		}
	}
}

// FuzzRelocate: wherever a program sends its client, a client that follows stays below the program's path, whatever it
// takes for a dot or a slash.
func FuzzRelocate(f *testing.F) {
	for _, location := range []string{"/login?a=b#c", "next", "../../x", "//host/x", "http://localhost:8080/%2e%2e/x",
		"/%2E./..%2f", "\\..\\x", "http://[::1]:8080//..", "?q", "? ", "#f", "http:x", "/;/..",
		"http://localhost:8080//host/x", "/.//host/x", "/..%5c..%2F..%2frun"} {
		f.Add("/a/b", location)
		f.Add("/../%2e%2e/", location)
	}
	f.Fuzz(func(t *testing.T, tail, location string) {
		if u, err := url.ParseRequestURI(tail); err != nil || u.EscapedPath() != tail || !strings.HasPrefix(tail, "/") {
			return
		}
		const prefix = "/v1/sandboxes/a/ports/8080"
		p := &passing{PortTarget: PortTarget{Port: 8080, Tail: tail}} // as a header names the port
		if within, ok := p.relocate(location); ok && (within[0] != '/' || strings.HasPrefix(within, "//")) {
			t.Fatalf("%q leads to %q", location, within)
		}
		p.Prefix = prefix
		within, ok := p.relocate(location)
		if !ok {
			return
		}
		way, _, _ := strings.Cut(within, "#")
		way, _, _ = strings.Cut(way, "?")
		if i := strings.IndexFunc(within, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 ||
			strings.Contains(way, "\\") {
			t.Fatalf("%q leads to %q", location, within)
		}
		plain, err := url.PathUnescape(way) // as browsers and proxies read it
		if plain = strings.ReplaceAll(plain, "\\", "/"); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(path.Clean(plain)+"/", prefix+"/") {
			t.Fatalf("%q leads to %q", location, within)
		}
	})
}

// TestManyTrailers: an answer that announces many trailers is refused, as net/http would compare each with all others.
func TestManyTrailers(t *testing.T) {
	for count, want := range map[int]error{duplex.MaxHeadLines: nil, duplex.MaxHeadLines + 1: duplex.ErrHeadLines} {
		r := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Trailer: http.Header{}}
		for i := range count {
			r.Trailer["Grpc-"+strconv.Itoa(i)] = nil
		}
		if err := (&passing{}).harden(r); !errors.Is(err, want) {
			t.Errorf("%d trailers: %v", count, err)
		}
	}
}
