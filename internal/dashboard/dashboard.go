// Package dashboard serves the pages at / and /ui/: a client of version 1 of the HTTP API in the browser. The pages
// need no key. Their scripts ask for one and send it with each request.
//
// The program in bundle builds the files in dist from dashboard/.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

//go:embed dist static
var files embed.FS

// Policies of the pages (Content-Security-Policy, level 3). No page may run inline scripts, or scripts, forms and
// connections of other origins.
const (
	strictPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
		"connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'"
	// xterm.js writes style sheets. Only this page may have them, in a frame of the main page or by itself.
	terminalPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
		"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
	// The page shows HTML of a sandbox. It has an opaque origin, no network, and no script but frame.js.
	framePolicy = "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; " +
		"img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)

// page is a file of the dashboard with its headers. The text of a packed one is compressed by gzip.
type page struct {
	text              []byte
	packed            bool
	kind, tag, policy string
}

// Add adds the pages. The server must not be serving yet.
func Add(server *httpd.Server) {
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		name, packed := strings.CutSuffix(path.Base(name), ".gz")
		// Pages of other sites may link to the dashboard. To its server, its frame for HTML is a page of another site.
		route := httpd.Route{Method: http.MethodGet, Path: "/ui/" + name, Handler: newPage(name, text, packed).serve,
			Open: true, AnySite: true}
		server.Handle(route)
		if name == "index.html" {
			route.Path = "/{$}"
			server.Handle(route)
		}
		return nil
	})
	if err != nil {
		panic(err) // the files are part of this program
	}
}

func newPage(name string, text []byte, packed bool) *page {
	sum := sha256.Sum256(text)
	p := &page{text: text, packed: packed, kind: mime.TypeByExtension(path.Ext(name)), policy: strictPolicy,
		tag: "W/" + strconv.Quote(base64.RawURLEncoding.EncodeToString(sum[:12]))} // weak: of both encodings
	switch path.Ext(name) { // the host may have another list
	case ".js":
		p.kind = "text/javascript; charset=utf-8"
	case ".txt":
		p.kind = "text/plain; charset=utf-8"
	case ".svg":
		p.kind = "image/svg+xml"
	}
	switch name {
	case "terminal.html":
		p.policy = terminalPolicy
	case "frame.html":
		p.policy = framePolicy
	}
	return p
}

// serve answers with the page. Browsers keep it, and ask each time whether it has changed.
func (p *page) serve(w *httpd.Response, r *http.Request) error {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", p.tag)
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if strings.Contains(r.Header.Get("If-None-Match"), p.tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", p.kind)
	if p.packed {
		h.Set("Vary", "Accept-Encoding")
		if !acceptsGzip(r) {
			plain, err := gzip.NewReader(bytes.NewReader(p.text))
			if err == nil {
				_, _ = io.Copy(w, w.Working(plain))
			}
			return err
		}
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(p.text)))
	_, _ = w.Write(p.text) // an error is of the client's connection
	return nil
}

// acceptsGzip reports whether the client lists gzip among the encodings that it accepts, as browsers do. Another form,
// such as one with a quality, counts as no.
func acceptsGzip(r *http.Request) bool {
	for _, one := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(one) == "gzip" {
			return true
		}
	}
	return false
}
