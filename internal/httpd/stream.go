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
	left int64 // bytes that are allowed yet
	most int64
	err  error
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
	return &streamBody{w: w, r: r, pace: pace{rate: leastRate, timeout: s.waits.body}, left: most, most: most}, nil
}

func (b *streamBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if int64(len(p)) > b.left+1 { // one more byte, to detect too much
		p = p[:b.left+1]
	}
	// an error means a writer without a connection, as in tests
	b.w.control.SetReadDeadline(b.pace.deadline(time.Now()))
	n, err := b.r.Body.Read(p)
	b.pace.moved(n, time.Now())
	if b.left -= int64(n); b.left < 0 {
		b.err = overBound(b.most)
		return 0, b.err
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		b.w.control.SetReadDeadline(time.Time{}) // or it would expire later and look like a lost client
		b.w.unread = false
		b.err = io.EOF
	default:
		b.err = bodyError(err)
	}
	return n, b.err
}

// Stopping ends when an http.Server of this server shuts down. Streams and tunnels end then.
func (s *Server) Stopping() context.Context { return s.stopping }
