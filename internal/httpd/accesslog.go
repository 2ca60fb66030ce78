package httpd

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxLoggedPath is how much of a path is logged, in bytes.
const maxLoggedPath = 256

// secretPrefixes begin API keys, ours and E2B's, which somebody may send in a path by mistake.
var secretPrefixes = []string{secretPrefix, "e2b_"}

// logRequest writes the line of a request to the access log. It has no query, no header and no body, which may have
// secrets.
func (s *Server) logRequest(w *Response, r *http.Request, took time.Duration) {
	s.access.LogAttrs(r.Context(), slog.LevelInfo, "request",
		slog.String("request_id", w.ID), slog.String("key", w.Key), slog.String("client", r.RemoteAddr),
		slog.String("method", loggedMethod(r.Method)), slog.String("path", loggedPath(r)),
		slog.String("route", w.route), slog.Int("status", w.status), slog.Int64("bytes", w.bytes),
		slog.Float64("took_ms", float64(took.Microseconds())/1000), slog.String("sandbox", w.Sandbox))
}

// loggedMethod bounds the method, which the client chooses.
func loggedMethod(method string) string { return method[:min(len(method), 16)] }

// loggedPath returns the path of a request, escaped, without what is passed on to a program and without API keys.
func loggedPath(r *http.Request) string {
	path := r.URL.EscapedPath()
	if Tail(r) != "" {
		path = strings.TrimSuffix(path, cutPath) + "/..."
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		plain, _ := url.PathUnescape(segment) // EscapedPath returns only valid escapes
		for _, prefix := range secretPrefixes {
			if before, _, has := strings.Cut(plain, prefix); has {
				plain = before + prefix + "..."
				segments[i] = url.PathEscape(plain)
			}
		}
	}
	path = strings.Join(segments, "/")
	if len(path) > maxLoggedPath {
		path = path[:maxLoggedPath] + "..."
	}
	return path
}
