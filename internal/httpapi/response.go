package httpapi

import (
	"net/http"
	"time"
)

// response is the writer of one request, with what the log and the metrics want to know of it.
//
// Every write has a deadline of its own, which moves with what the client takes: a large answer may take long, while one that
// nobody reads ends soon. A deadline stays with the connection, so it is also set anew before the first write of each request.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration

	id     string // of the request
	key    string // name of the API key; "" where none is asked for
	route  string // pattern that matched; never the path, which the client chooses
	status int    // 0 until the headers are sent
	bytes  int64
	unread bool // there is a body that was not read to its end
}

// paceBytes is how much is written under one deadline: a client that takes less than this in a WriteTimeout is too slow.
const paceBytes = 64 << 10

func newResponse(w http.ResponseWriter, timeout time.Duration) *response {
	out := &response{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout, route: noRoute}
	out.extend()
	return out
}

// extend gives the client another timeout. An error means a writer without a connection, as in tests.
func (w *response) extend() { w.control.SetWriteDeadline(time.Now().Add(w.timeout)) }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	done := 0
	for done < len(data) {
		w.extend()
		n, err := w.ResponseWriter.Write(data[done:min(len(data), done+paceBytes)])
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
	w.extend()
	return w.control.Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
