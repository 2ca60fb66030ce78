package httpd

import (
	"context"
	"io"
	"net/http"
	"time"
)

// streamBody is a request body that the handler reads as it arrives. It may take long, if it keeps the least rate.
type streamBody struct {
	w    *Response
	r    *http.Request
	pace pace
	cost cost
}

// bounded is a reader with a bound.
type bounded struct {
	io.Reader
	left int64 // bytes that are allowed yet
	most int64
	err  error
}

// Bound returns a reader of at most so many bytes. Past them it returns a TooLarge error.
func Bound(r io.Reader, most int64) io.Reader { return &bounded{Reader: r, left: most, most: most} }

func (b *bounded) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if int64(len(p)) > b.left+1 { // one more byte, to detect too much
		p = p[:b.left+1]
	}
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		n, err = 0, overBound(b.most)
	}
	b.err = err
	return n, err
}

// StreamBody returns the body of a request, of any type, to be read by the handler. Its errors are the answer: TooLarge
// past the limit, or a refusal if it comes too slowly or not to its end.
func (s *Server) StreamBody(w *Response, r *http.Request, most int64) (io.Reader, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return nil, errCompressed
	}
	if r.ContentLength > most {
		return nil, overBound(most)
	}
	return Bound(&streamBody{w: w, r: r, pace: pace{rate: leastRate, timeout: s.waits.body},
		cost: w.cost}, most), nil
}

func (b *streamBody) Read(p []byte) (int, error) {
	// an error means a writer without a connection, as in tests
	b.w.control.SetReadDeadline(b.pace.deadline(time.Now()))
	if b.w.revoked.Load() { // its deadline is over
		return 0, errKey
	}
	n, err := b.r.Body.Read(p)
	b.pace.moved(n, time.Now())
	b.cost.read(n, copyTime)
	if err == io.EOF || err == nil && b.w.http2 {
		b.w.control.SetReadDeadline(time.Time{}) // or it would expire later and look like a lost client
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		b.w.unread = false
		return n, io.EOF
	case b.w.revoked.Load():
		return n, errKey
	}
	return n, bodyError(err)
}

// Stopping ends when an http.Server of this server shuts down. Streams and tunnels end then.
func (s *Server) Stopping() context.Context { return s.stopping }
