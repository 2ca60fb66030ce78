package httpd

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// FuzzRelocate: wherever a program sends its client, a client that follows stays below the program's path, whatever it
// takes for a dot or a slash.
func FuzzRelocate(f *testing.F) {
	for _, location := range []string{"/login?a=b#c", "next", "../../x", "//host/x", "http://localhost:8080/%2e%2e/x",
		"/%2E./..%2f", "\\..\\x", "http://[::1]:8080//..", "?q", "? ", "#f", "http:x", "/;/.."} {
		f.Add("/a/b", location)
		f.Add("/../%2e%2e/", location)
	}
	f.Fuzz(func(t *testing.T, tail, location string) {
		if u, err := url.ParseRequestURI(tail); err != nil || u.EscapedPath() != tail || !strings.HasPrefix(tail, "/") {
			return
		}
		const prefix = "/v1/sandboxes/a/ports/8080"
		p := &passing{PortTarget: PortTarget{Port: 8080, Prefix: prefix, Tail: tail}}
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
		plain := strings.NewReplacer("%2e", ".", "%2E", ".").Replace(way) // as browsers read it
		if !strings.HasPrefix(path.Clean(plain)+"/", prefix+"/") {
			t.Fatalf("%q leads to %q", location, within)
		}
	})
}
