package httpd

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/duplex"
)

// tail is the context key of the tail of a request's path.
type tail struct{}

// Tail is the end of a request's path that a route with a Tail passes on: escaped as the client wrote it, with a slash
// first, without a meaning here. It is "" for other routes.
func Tail(r *http.Request) string {
	cut, _ := r.Context().Value(tail{}).(string)
	return cut
}

// cutPath stands for the tail where the request is routed, so that no tail can change its route.
const cutPath = "/-"

// noPath is a path without a route.
const noPath = "/-/-"

// headOf splits a route's path before its tail.
func headOf(path string) []string {
	head := strings.Split(strings.TrimPrefix(path, "/"), "/")
	return head[:len(head)-1]
}

// cutTail moves the tail of a request's path, if its route passes one on, into its context.
func (p *paths) cutTail(r *http.Request) *http.Request {
	path := r.URL.EscapedPath()
	for _, head := range p.tails {
		at, escaped := tailAt(head, path)
		if at < 0 {
			continue
		}
		if escaped { // the router would accept it, and lose the tail
			to := *r.URL
			to.Path, to.RawPath = noPath, noPath
			r = r.WithContext(r.Context())
			r.URL = &to
			return r
		}
		plain, err := url.PathUnescape(path[:at])
		if err != nil {
			return r
		}
		to := *r.URL
		to.Path, to.RawPath = plain+cutPath, path[:at]+cutPath
		r = r.WithContext(context.WithValue(r.Context(), tail{}, path[at:]))
		r.URL = &to
		return r
	}
	return r
}

// tailAt returns where the tail begins in an escaped path that has this head, or -1, and whether a fixed part of the
// head is escaped.
func tailAt(head []string, path string) (at int, escaped bool) {
	for _, want := range head {
		if !strings.HasPrefix(path[at:], "/") {
			return -1, false
		}
		length := strings.IndexByte(path[at+1:], '/')
		if length < 1 {
			return -1, false
		}
		if got := path[at+1 : at+1+length]; got != want && !strings.HasPrefix(want, "{") {
			if plain, err := url.PathUnescape(got); err != nil || plain != want {
				return -1, false
			}
			escaped = true
		}
		at += 1 + length
	}
	return at, escaped
}

// PassOn prepares a request whose body and answer are those of a program in a sandbox: both are passed on at once, at
// the pace of the slower side, until the client leaves. The connection counts for its owner meanwhile. The
// caller calls done at the end of its handler.
func (w *Response) PassOn(r *http.Request) (done func()) {
	w.passed, w.unread = true, false
	_ = w.control.EnableFullDuplex()           // errors mean a writer without a connection, as in tests
	_ = w.control.SetReadDeadline(time.Time{}) // or that of other requests would cut the body off
	body := &passedBody{ReadCloser: r.Body, cost: w.cost, ended: r.Body == http.NoBody}
	r.Body = body
	return func() {
		if !body.ended {
			_ = w.control.SetReadDeadline(time.Now().Add(unreadTime)) // net/http reads what is left
		}
	}
}

// passedBody notes whether a body was read to its end.
type passedBody struct {
	io.ReadCloser
	cost  cost
	ended bool
}

func (b *passedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.cost.read(n, copyTime)
	if err == io.EOF {
		b.ended = true
	}
	return n, err
}

// Hijack hands over the connection, for a protocol that the client requests, as duplex.Hijack does. The server's limit
// of connections no longer counts it.
func (w *Response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := duplex.Hijack(w.ResponseWriter)
	if err != nil {
		return nil, nil, err
	}
	w.status = http.StatusSwitchingProtocols
	if both, ok := conn.(duplex.Conn); ok {
		conn = &paidConn{both, w.cost}
		buffered.Reader.Reset(conn)
		buffered.Writer.Reset(conn)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hijacked = conn; w.revoked.Load() {
		conn.Close()
	}
	return conn, buffered, nil
}
