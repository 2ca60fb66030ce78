package httpd

import (
	"net/http"
	"strings"
)

// Route is one method of one path, or all methods, and its handler.
type Route struct {
	Method, Path string
	Handler      func(*Response, *http.Request) error
	Open         bool // needs no key
	Tail         bool // the last segment of Path, {NAME...}, is passed on as it came; see Tail
	WebSocket    bool // the key may be among the offered sub-protocols, see api.KeyProtocol
	// AnySite admits requests that pages of other sites make a browser send: they prove their right by what they
	// contain, need none, or are a program's.
	AnySite bool
	// Fail answers with the error of the handler, or of the checks before it; nil answers with a problem of RFC 9457.
	Fail func(*Response, error)
}

// Side is another set of paths at the same address, for the requests that match.
type Side struct {
	Match  func(*http.Request) bool
	Routes []Route
	Fail   func(*Response, error) // for requests without a route, as Route.Fail
}

// paths are the routes of one set of paths.
type paths struct {
	match  func(*http.Request) bool // nil matches all
	mux    *http.ServeMux
	routes map[string]Route // by pattern
	tails  [][]string       // the segments before the tail of each path with one
	fail   func(*Response, error)
}

func newPaths() *paths { return &paths{mux: http.NewServeMux(), routes: map[string]Route{}} }

// Handle adds routes. The server must not be serving yet.
func (s *Server) Handle(routes ...Route) { s.addTo(s.main, routes) }

// AddSide adds another set of paths. The server must not be serving yet.
func (s *Server) AddSide(side Side) {
	p := newPaths()
	p.match, p.fail = side.Match, side.Fail
	s.addTo(p, side.Routes)
	s.sides = append(s.sides, p)
}

func (s *Server) addTo(p *paths, routes []Route) {
	for _, route := range routes {
		if route.Fail == nil {
			route.Fail = s.fail
		}
		pattern := strings.TrimSpace(route.Method + " " + route.Path)
		p.routes[pattern] = route
		if route.Tail {
			p.tails = append(p.tails, headOf(route.Path))
		}
		p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			out := w.(*Response)
			if err := route.Handler(out, r); err != nil {
				if out.Revoked() { // its context ended; the error may be any
					err = errKey
				}
				route.Fail(out, err)
			}
		})
	}
}

// pathsOf returns the set of paths of a request.
func (s *Server) pathsOf(r *http.Request) *paths {
	for _, p := range s.sides {
		if p.match(r) {
			return p
		}
	}
	return s.main
}
