package httpd

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Response is the writer of one request, with its facts for log and metrics.
//
// Every write has a deadline that moves with what the client takes: a large answer may take long, but an unread or
// dripping one ends soon. A deadline stays with the connection, so the first write of each request sets it anew.
type Response struct {
	http.ResponseWriter
	control *http.ResponseController
	pace    pace

	ID       string // of the request
	Key      string // name of the API key, the owner of all that the request makes; "" without keys
	Operator bool   // may see and end what other keys made
	Sandbox  string // id of the living sandbox that it is about, for the log

	owner  string // of its share of limits: the API key, or the client's address
	cost   cost
	route  string // matched pattern; never the path, which the client chooses
	status int    // 0 until the headers are sent
	bytes  int64
	unread bool // the body was not read to its end
	passed bool // the answer is a program's in a sandbox
	http2  bool // a deadline expires between writes, too, and ends the request; so each write clears it

	revoked atomic.Bool             // its API key is gone or has expired
	cancel  context.CancelCauseFunc // of its context; nil where no key is required

	mu       sync.Mutex // guards all below
	held     int64      // bytes of the room for answers; -1 once the request has ended
	hijacked net.Conn   // nil until it is
}

// paceBytes is how much is written under one deadline.
const paceBytes = 64 << 10

// unreadTime is how long net/http may read what a program left of a body.
const unreadTime = time.Second

// NewResponse returns the writer of a request. timeout limits how long its client may take nothing or lag behind the
// least rate.
func NewResponse(w http.ResponseWriter, timeout time.Duration) *Response {
	out := &Response{ResponseWriter: w, control: http.NewResponseController(w), cost: newCost(),
		pace: pace{rate: leastRate, timeout: timeout}, route: noRoute}
	if _, out.http2 = w.(http.Pusher); !out.http2 {
		out.begin()
	}
	return out
}

// begin sets the deadline of the next write. An error means a writer without a connection, as in tests.
func (w *Response) begin() { w.control.SetWriteDeadline(w.pace.deadline(time.Now())) }

// wrote ends the wait that begin began, in which n bytes were taken.
func (w *Response) wrote(n int) {
	w.pace.moved(n, time.Now())
	if w.http2 {
		w.control.SetWriteDeadline(time.Time{})
	}
}

func (w *Response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if w.unread && !w.http2 { // drain reads the rest after the answer
		w.Header().Set("Connection", "close")
	}
	if !w.http2 { // an answer without a body has no other write, and its handler may have taken long
		w.begin()
	}
	w.cost.sendHead(bytesOf(w.Header())) // those of a program may be many
	w.cost.piece = pieceTime(w.Header().Get("Content-Type"))
	w.ResponseWriter.WriteHeader(status)
}

func (w *Response) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	done := 0
	if w.revoked.Load() && w.bytes > 0 { // the answer that reports it is the first
		return 0, errKey
	}
	for done < len(data) {
		piece := data[done:min(len(data), done+paceBytes)]
		w.begin()
		w.cost.sendBody(len(piece))
		n, err := w.ResponseWriter.Write(piece)
		w.wrote(n)
		done += n
		w.bytes += int64(n)
		if err != nil {
			w.cost.sendBody(n - len(piece))
			return done, err
		}
		w.cost.addBytes(n, w.cost.piece)
	}
	return done, nil
}

// FlushError sends buffered data.
func (w *Response) FlushError() error {
	w.begin()
	err := w.control.Flush()
	w.wrote(0)
	w.cost.add(flushTime)
	return err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// reserve takes n bytes of a room until the end of the request. It waits for them, but not longer than longest.
func (w *Response) reserve(ctx context.Context, in *room.Room, n int64, longest time.Duration) error {
	if n <= 0 {
		return nil
	}
	w.mu.Lock()
	held := w.held
	w.mu.Unlock()
	if held+n > in.Share() {
		return &sandbox.Error{Kind: sandbox.TooLarge, Fix: "request less at a time",
			Msg: "the answer is over the limit of " + sandbox.FormatBytes(in.Share()) +
				" for the unread answers of one client"}
	}
	if !in.Wait(ctx, w.owner, n, longest) {
		return &sandbox.Error{Kind: sandbox.Busy, Msg: "too many answers to slow readers are held in memory",
			Fix: "read answers sooner, or try again later"}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held < 0 {
		in.Give(w.owner, n)
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the request has ended"}
	}
	w.held += n
	return nil
}

// end frees what the request has reserved.
func (w *Response) end(in *room.Room) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in.Give(w.owner, w.held)
	w.held = -1
}
