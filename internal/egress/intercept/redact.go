package intercept

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// redactBody replaces inserted values by their placeholders in the body of an answer, so that a host which repeats
// requests reveals nothing. It does not see values that the host encodes.
func redactBody(answer *http.Response, swaps []swap) {
	if len(swaps) == 0 || answer.Body == nil || answer.Body == http.NoBody ||
		answer.StatusCode == http.StatusSwitchingProtocols || answer.Header.Get("Content-Encoding") != "" {
		return
	}
	answer.Body = &redactedBody{ReadCloser: answer.Body, swaps: swaps}
	answer.ContentLength = -1 // a placeholder has another length than its value
	answer.Header.Del("Content-Length")
}

// redactedBody is a body without the inserted values.
type redactedBody struct {
	io.ReadCloser
	swaps  []swap
	buffer []byte
	ready  int // bytes of buffer that have been searched
	err    error
}

const redactSize = 32 << 10 // bytes read at once

func (r *redactedBody) Read(p []byte) (int, error) {
	for r.ready == 0 && r.err == nil {
		r.fill()
	}
	if r.ready == 0 {
		return 0, r.err
	}
	n := copy(p, r.buffer[:r.ready])
	r.ready -= n
	r.buffer = r.buffer[n:]
	return n, nil
}

// fill reads more. It holds an end back that may be the beginning of a value.
func (r *redactedBody) fill() {
	chunk := make([]byte, redactSize)
	n, err := r.ReadCloser.Read(chunk)
	r.err = err
	r.buffer = append(r.buffer, chunk[:n]...)
	for _, s := range r.swaps {
		r.buffer = bytes.ReplaceAll(r.buffer, []byte(s.value), []byte(s.placeholder))
	}
	r.ready = len(r.buffer)
	if err != nil {
		return
	}
	for _, s := range r.swaps {
		r.ready = min(r.ready, len(r.buffer)-overlap(r.buffer, s.value))
	}
}

// overlap returns the length of the longest end of b that is a beginning of value.
func overlap(b []byte, value string) int {
	for n := min(len(b), len(value)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == value[:n] {
			return n
		}
	}
	return 0
}

// redactHeader replaces inserted values by their placeholders in headers.
func redactHeader(h http.Header, swaps []swap) {
	for _, values := range h {
		for i := range values {
			for _, s := range swaps {
				values[i] = strings.ReplaceAll(values[i], s.value, s.placeholder)
			}
		}
	}
}

// headerRedactor redacts the headers of informational answers (1xx), which no other hook of the proxy sees.
type headerRedactor struct {
	http.ResponseWriter
	swaps []swap
}

func (r *headerRedactor) WriteHeader(status int) {
	redactHeader(r.Header(), r.swaps)
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (r *headerRedactor) Unwrap() http.ResponseWriter { return r.ResponseWriter }
