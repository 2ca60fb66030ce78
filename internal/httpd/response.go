package httpd

import (
	"net/http"
	"time"
)

// Response is the writer of one request, with its facts for log and metrics.
//
// Every write has a deadline that moves with what the client takes: a large answer may take long, but an unread or
// dripping one ends soon. A deadline stays with the connection, so the first write of each request sets it anew.
type Response struct {
	http.ResponseWriter
	control *http.ResponseController
	pace    pace

	ID  string // of the request
	Key string // name of the API key, the owner of all that the request makes; "" without keys

	owner  string // of its share of limits: the API key, or the client's address
	route  string // matched pattern; never the path, which the client chooses
	status int    // 0 until the headers are sent
	bytes  int64
	unread bool // the body was not read to its end
	passed bool // the answer is a program's in a sandbox
}

// paceBytes is how much is written under one deadline.
const paceBytes = 64 << 10

// unreadTime is how long net/http may read an unwanted body after the answer. It does so to keep the connection, and so
// that a sending client does not miss the answer.
const unreadTime = time.Second

// NewResponse returns the writer of a request. timeout limits how long its client may take nothing or lag behind the
// least rate.
func NewResponse(w http.ResponseWriter, timeout time.Duration) *Response {
	out := &Response{ResponseWriter: w, control: http.NewResponseController(w), pace: pace{rate: leastRate,
		timeout: timeout}, route: noRoute}
	out.begin()
	return out
}

// begin sets the deadline of the next write. An error means a writer without a connection, as in tests.
func (w *Response) begin() { w.control.SetWriteDeadline(w.pace.deadline(time.Now())) }

func (w *Response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if w.unread {
		w.Header().Set("Connection", "close")
		w.control.SetReadDeadline(time.Now().Add(unreadTime))
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *Response) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	done := 0
	for done < len(data) {
		w.begin()
		n, err := w.ResponseWriter.Write(data[done:min(len(data), done+paceBytes)])
		w.pace.moved(n, time.Now())
		done += n
		w.bytes += int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// FlushError sends buffered data.
func (w *Response) FlushError() error {
	w.begin()
	err := w.control.Flush()
	w.pace.moved(0, time.Now())
	return err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
