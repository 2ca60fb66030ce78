package httpapi

import (
	"net/http"
	"time"
)

// response is the writer of one request, with what the log and the metrics want to know of it.
//
// Every write has a deadline, which moves with what the client takes: a large answer may take long, while one that nobody reads, or
// that somebody reads by the drop, ends soon. A deadline stays with the connection, so it is also set anew before the first write of
// each request.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	pace    pace

	id     string // of the request
	key    string // name of the API key; "" where none is asked for
	owner  string // of what is held for it: the API key, or the client's address
	route  string // pattern that matched; never the path, which the client chooses
	status int    // 0 until the headers are sent
	bytes  int64
	unread bool // there is a body that was not read to its end
}

// paceBytes is how much is written under one deadline.
const paceBytes = 64 << 10

// unreadTime is how long net/http may go on, behind an answer, to read a body that nobody wants: it does so to keep the
// connection, or lest the client miss the answer while it sends.
const unreadTime = time.Second

func newResponse(w http.ResponseWriter, pace pace) *response {
	out := &response{ResponseWriter: w, control: http.NewResponseController(w), pace: pace, route: noRoute}
	out.begin()
	return out
}

// begin sets the deadline of what is written next. An error means a writer without a connection, as in tests.
func (w *response) begin() { w.control.SetWriteDeadline(w.pace.deadline(time.Now())) }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if w.unread {
		w.Header().Set("Connection", "close")
		w.control.SetReadDeadline(time.Now().Add(unreadTime))
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(data []byte) (int, error) {
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

// FlushError sends what is buffered on its way.
func (w *response) FlushError() error {
	w.begin()
	err := w.control.Flush()
	w.pace.moved(0, time.Now())
	return err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
