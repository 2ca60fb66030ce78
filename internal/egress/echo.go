package egress

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// echo reads an answer and puts placeholders where it repeats values, so that a host which echoes requests gives nothing away. What the
// answer codes in some way, it does not see.
type echo struct {
	io.ReadCloser
	swaps  []swapped
	buffer []byte
	ready  int // bytes of buffer that have been searched
	err    error
}

const echoSize = 32 << 10 // bytes read at once

// hiding is the way to the sandbox for headers that may repeat values: those of the answer, and of what comes before it (1xx).
type hiding struct {
	http.ResponseWriter
	swaps []swapped
}

func (q *hiding) WriteHeader(status int) {
	q.hide()
	q.ResponseWriter.WriteHeader(status)
}

// hide replaces what the headers repeat. After the body they are its trailers.
func (q *hiding) hide() {
	for _, values := range q.Header() {
		for i := range values {
			for _, s := range q.swaps {
				values[i] = strings.ReplaceAll(values[i], s.put, s.place)
			}
		}
	}
}

// Unwrap is for http.ResponseController.
func (q *hiding) Unwrap() http.ResponseWriter { return q.ResponseWriter }

// hideEchoes replaces what an answer repeats in its body.
func hideEchoes(answer *http.Response, swaps []swapped) {
	if answer.Body == nil || answer.Body == http.NoBody || answer.StatusCode == http.StatusSwitchingProtocols || answer.Header.Get("Content-Encoding") != "" {
		return
	}
	answer.Body = &echo{ReadCloser: answer.Body, swaps: swaps}
	answer.ContentLength = -1 // a placeholder has a length of its own
	answer.Header.Del("Content-Length")
}

func (e *echo) Read(p []byte) (int, error) {
	for e.ready == 0 && e.err == nil {
		e.fill()
	}
	if e.ready == 0 {
		return 0, e.err
	}
	n := copy(p, e.buffer[:e.ready])
	e.ready -= n
	e.buffer = e.buffer[n:]
	return n, nil
}

// fill reads more, and searches all but an end that may be the beginning of a value.
func (e *echo) fill() {
	chunk := make([]byte, echoSize)
	n, err := e.ReadCloser.Read(chunk)
	e.err = err
	e.buffer = append(e.buffer, chunk[:n]...)
	for _, s := range e.swaps {
		e.buffer = bytes.ReplaceAll(e.buffer, []byte(s.put), []byte(s.place))
	}
	e.ready = len(e.buffer)
	if err != nil {
		return
	}
	for _, s := range e.swaps {
		e.ready = min(e.ready, len(e.buffer)-overlap(e.buffer, s.put))
	}
}

// overlap is the length of the longest end of b with which value begins.
func overlap(b []byte, value string) int {
	for n := min(len(b), len(value)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == value[:n] {
			return n
		}
	}
	return 0
}
