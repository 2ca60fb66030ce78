package httpd

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/cputime"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// noRoute is the route, in log and metrics, of requests that matched no pattern or were refused earlier.
const noRoute = "none"

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	out := NewResponse(w, s.config.WriteTimeout)
	defer cputime.Clear()
	defer out.cost.settle() // after the rest of the body is read, and if a handler cuts the connection
	var refused error
	if out.http2 {
		var end func()
		r, end, refused = beginStream(out, r)
		defer end()
		defer out.begin() // for what net/http sends after the handler
	} else {
		countHead(out, r)
	}
	s.answer(out, r, refused)
	switch {
	case !out.unread || out.status == http.StatusSwitchingProtocols:
	case out.http2:
		out.takeArrived(r)
	default:
		s.drain(out, r)
	}
}

// answer answers a request, with the error if it is refused.
func (s *Server) answer(out *Response, r *http.Request, refused error) {
	started := time.Now()
	out.ID, out.unread = string(sandbox.NewID()), r.Body != http.NoBody
	h := out.Header()
	h.Set("X-Request-Id", out.ID)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if len(r.TransferEncoding) > 0 {
		// net/http drops a Content-Length beside it. A proxy may have used that one (request smuggling, RFC 9112,
		// section 6.1), so the connection ends here.
		h.Set("Connection", "close")
	}
	if s.config.Keys.Required() {
		r = r.WithContext(out.revocable(r.Context()))
	}
	in := s.pathsOf(r)
	r = in.cutTail(r)
	s.metrics.inFlight.Inc()
	defer func() { // also where contain cuts the connection
		out.end(s.answers)
		s.config.Keys.leave(out)
		s.metrics.inFlight.Dec()
		s.record(out, r, time.Since(started))
	}()
	defer func() {
		if p := recover(); p != nil {
			s.contain(out, p)
		}
	}()
	mux, pattern := in.mux.Handler(r)
	route := in.routes[pattern]
	if refused == nil {
		refused = s.admit(out, r, mux, route)
	}
	r = r.WithContext(cputime.Label(r.Context(), out.owner))
	out.cost.begin(s.shares, out.owner)
	out.cost.gone = goneOf(r.Context())
	if refused != nil || !route.Open {
		if owes := out.cost.afford(0); refused == nil {
			refused = owes
		}
	}
	if out.cost.isGone() {
		panic(http.ErrAbortHandler) // after an answer, net/http would wait for half a second before it closes
	}
	if refused == nil && !route.Open { // requests without a key give way to those with one
		refused = admitted(r.Context(), out.owner)
	}
	if refused != nil {
		for _, fail := range []func(*Response, error){route.Fail, in.fail, s.fail} {
			if fail != nil {
				fail(out, refused)
				break
			}
		}
		return
	}
	out.route = pattern
	in.mux.ServeHTTP(out, r)
	if route.Open {
		out.cost.pay() // unless Admit has done so
	}
}

// admit checks the number of headers, the Host header, the origin, the key and the path, in this order: without a key,
// the answer reveals nothing about paths.
func (s *Server) admit(w *Response, r *http.Request, h http.Handler, route Route) error {
	w.owner = addressOwner + addressOf(r.RemoteAddr)
	if err := checkHeader(r.Header); err != nil {
		return err
	}
	if err := s.checkHost(r); err != nil {
		return err
	}
	if !route.AnySite {
		if err := checkOrigin(r); err != nil {
			return err
		}
	}
	if !route.Open {
		if err := s.authorize(w, r, route.WebSocket); err != nil {
			return err
		}
	}
	for _, guard := range s.guards {
		if err := guard(r); err != nil {
			return err
		}
	}
	if route.Handler == nil {
		return noPattern(h, r, w.Header())
	}
	if path.Clean(r.URL.Path) != r.URL.Path {
		return &sandbox.Error{Kind: sandbox.NotFound, Msg: "there is nothing at this path",
			Fix: fmt.Sprintf("use %.200q", path.Clean(r.URL.Path))}
	}
	return nil
}

// noPattern finds out from the mux whether the path or the method is unknown.
func noPattern(h http.Handler, r *http.Request, header http.Header) error {
	var probe unsent
	h.ServeHTTP(&probe, r)
	if allow := probe.Header().Get("Allow"); allow != "" {
		header.Set("Allow", allow)
		return Refuse(http.StatusMethodNotAllowed, sandbox.Invalid, "this path has no such method", "use "+allow)
	}
	return &sandbox.Error{Kind: sandbox.NotFound, Msg: "there is nothing at this path",
		Fix: "GET /openapi.json lists all paths"}
}

// unsent is a response that is discarded.
type unsent struct{ header http.Header }

func (u *unsent) Header() http.Header {
	if u.header == nil {
		u.header = http.Header{}
	}
	return u.header
}
func (*unsent) Write(p []byte) (int, error) { return len(p), nil }
func (*unsent) WriteHeader(int)             {}

// fail answers with a problem.
func (s *Server) fail(w *Response, err error) { writeProblem(w, s.Problem(w, err)) }

// contain logs the panic of a handler and ends only its request.
func (s *Server) contain(w *Response, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p) // net/http cuts the connection
	}
	s.metrics.panics.Inc()
	s.log.Error("a handler panicked", "request_id", w.ID, "route", w.route, "panic", fmt.Sprint(p), "stack",
		string(debug.Stack()))
	if w.status == 0 {
		s.fail(w, &sandbox.Error{Kind: sandbox.Internal, Op: "serve"})
		return
	}
	panic(http.ErrAbortHandler) // an incomplete answer must not look complete
}

// record writes one line of the log and counts.
func (s *Server) record(w *Response, r *http.Request, took time.Duration) {
	s.metrics.request(w, r, took)
	s.logRequest(w, r, took)
}

// WriteJSON answers with v, whose type always has a JSON form, and status 200.
func (s *Server) WriteJSON(w *Response, v any) error { return s.WriteStatus(w, http.StatusOK, v) }

// WriteStatus answers with v. A *largejson.JSON is one that Hold returned; the JSON of any other value is counted here.
// WriteStatus ignores errors of the client's connection.
func (s *Server) WriteStatus(w *Response, status int, v any) error {
	text, ok := v.(*largejson.JSON)
	if !ok {
		text = largejson.NewLayout().Around(v)
		if err := s.TryReserve(w, text.Size()-FreeAnswer); err != nil {
			return err
		}
	}
	h := w.Header()
	h.Set("Content-Type", api.MediaJSON)
	h.Set("Content-Length", strconv.FormatInt(text.Length(), 10)) // so that a proxy detects a truncated answer
	w.WriteHeader(status)
	if err := text.EncodeTo(w); err != nil {
		s.metrics.slowReaders.Inc()
		panic(http.ErrAbortHandler)
	}
	return nil
}
