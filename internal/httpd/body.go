package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// bodyBounds limit one body. Otherwise a client that drips bytes would hold its connection and its share of the room
// for ever.
type bodyBounds struct {
	most  int64
	pace  pace
	total time.Duration
	cost  *cost // of reading it
}

// freeBody is how much of each body needs no room, so that small requests are read even if it is full. Connections are
// limited too.
const freeBody = 16 << 10

// Body is a request body in memory, counted in a room until Release. Bodies are read before a slot is taken, so slots
// do not limit them.
type Body struct {
	Data  []byte
	shape shape // of JSON
	room  *room.Room
	owner string
	taken int64
}

// Release frees the room of the body. It may be called twice.
func (b *Body) Release() {
	b.room.Give(b.owner, b.taken)
	b.taken = 0
}

// grow doubles the space, up to most: a claimed length costs nothing until half of it has arrived.
func (b *Body) grow(most int64) bool {
	size := min(max(2*int64(cap(b.Data)), freeBody), most)
	more := max(0, size-freeBody) - b.taken
	if !b.room.Take(b.owner, more) {
		return false
	}
	b.taken += more
	b.Data = append(make([]byte, 0, size), b.Data...)
	return true
}

// Hold counts n further bytes until Release. It returns a Busy error if too many are held.
func (b *Body) Hold(n int64) error {
	if !b.room.Take(b.owner, n) {
		return errBodies()
	}
	b.taken += n
	return nil
}

// HoldRequest counts what a run holds of a request that ReadBody has not read, beyond 16 KiB. The caller releases it
// once the run has ended.
func (s *Server) HoldRequest(w *Response, n int64) (*Body, error) {
	b := &Body{room: s.bodies, owner: w.owner}
	return b, b.Hold(max(0, n-freeBody))
}

func errBodies() error {
	return &sandbox.Error{Kind: sandbox.Busy, Msg: "too many request bodies are held in memory", Fix: "try again later"}
}

// ReadBody reads the JSON body of a request, and refuses one with too many values. The text and the values that a
// decoder makes of it count as held until Release, as they live as long as the run. The caller releases it, also after
// an error.
func (s *Server) ReadBody(w *Response, r *http.Request) (*Body, error) {
	if err := checkContentType(r); err != nil {
		return &Body{room: s.bodies, owner: w.owner}, err
	}
	b, err := s.ReadBytes(w, r)
	if err != nil {
		return b, err
	}
	b.shape = shapeOf(b.Data)
	if err := b.shape.check(); err != nil {
		return b, err
	}
	if err := w.cost.afford(time.Duration(b.shape.values) * valueTime); err != nil {
		return b, err
	}
	return b, b.Hold(max(0, b.shape.size-freeBody))
}

// CheckLiterals refuses JSON that ReadBody has read if it has a long name, number or white space. Call it before
// encoding/json decodes any of it into a struct: the text of an error would hold several copies.
func (b *Body) CheckLiterals() error { return b.shape.checkLiterals() }

// ReadJSON decodes the body of a request as ReadBody reads it. It ignores unknown fields, and a missing body has none.
// The caller calls release, also after an error.
func (s *Server) ReadJSON(w *Response, r *http.Request, into any) (release func(), err error) {
	if r.Body == http.NoBody {
		return func() {}, nil
	}
	body, err := s.ReadBody(w, r)
	if err == nil {
		err = body.CheckLiterals()
	}
	if err == nil && len(body.Data) > 0 {
		if err = json.Unmarshal(body.Data, into); err != nil {
			err = sandbox.Invalidf("body", "is not the JSON of this request: %v", err)
		}
	}
	body.Data = nil // the decoded value is a copy
	return body.Release, err
}

// ReadBytes is ReadBody for a body of any type.
func (s *Server) ReadBytes(w *Response, r *http.Request) (*Body, error) {
	bounds := bodyBounds{s.config.MaxBody, pace{rate: leastRate, timeout: s.waits.body}, s.waits.bodyTotal,
		&w.cost}
	b, err := readBody(w.control, r, bounds, s.bodies, w.owner)
	if w.revoked.Load() {
		err = errKey
	}
	w.unread = w.unread && err != nil
	return b, err
}

// readBody reads the whole body of a request. It returns a TooLarge error past the limit, and a Busy error if too many
// other bodies are held. The caller releases the body, also after an error.
func readBody(control *http.ResponseController, r *http.Request, bounds bodyBounds, in *room.Room, owner string) (*Body,
	error) {
	b := &Body{room: in, owner: owner}
	if r.Header.Get("Content-Encoding") != "" {
		return b, errCompressed
	}
	if r.ContentLength > bounds.most {
		return b, overBound(bounds.most)
	}
	size := bounds.most + 1 // one more byte, to detect the end or too much
	if r.ContentLength >= 0 {
		size = r.ContentLength + 1
	}
	end, pace := time.Now().Add(bounds.total), bounds.pace
	for {
		if len(b.Data) == cap(b.Data) && !b.grow(size) {
			return b, errBodies()
		}
		// an error means a writer without a connection, as in tests
		control.SetReadDeadline(earlier(end, pace.deadline(time.Now())))
		n, err := r.Body.Read(b.Data[len(b.Data):cap(b.Data)])
		pace.moved(n, time.Now())
		bounds.cost.read(n, encodeTime)
		b.Data = b.Data[:len(b.Data)+n]
		if int64(len(b.Data)) > bounds.most {
			return b, overBound(bounds.most)
		}
		if err == io.EOF {
			// Otherwise the old deadline would expire during the run and look like a lost client.
			control.SetReadDeadline(time.Time{})
			return b, nil
		}
		if err != nil {
			return b, bodyError(err)
		}
	}
}

var errCompressed = Refuse(http.StatusUnsupportedMediaType, sandbox.Invalid, "the body is compressed",
	"send it uncompressed")

// bodyError returns the refusal for an error of reading a body.
func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return Refuse(http.StatusRequestTimeout, sandbox.Invalid, "the body came too slowly", "")
	}
	return Refuse(http.StatusBadRequest, sandbox.Invalid, "the body could not be read to its end", "")
}

func overBound(most int64) error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Msg: "the body is over the limit of " + sandbox.FormatBytes(most)}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// drain reads the rest of a body that was refused, after the answer. A client that sends all of its body before it
// reads, as Python's urllib does, would get no answer otherwise: closing a connection with unread bytes resets it (RFC
// 9112, section 9.6). It reads at most the limit of a file, at the pace of any body.
func (s *Server) drain(w *Response, r *http.Request) {
	if w.FlushError() != nil {
		return
	}
	end, pace := time.Now().Add(s.waits.bodyTotal), pace{rate: leastRate, timeout: s.waits.body}
	if r.Header.Get("Expect") != "" { // it may wait for our consent
		pace.timeout = min(pace.timeout, unreadTime)
	}
	defer context.AfterFunc(s.stopping, func() { w.control.SetReadDeadline(time.Now()) })()
	buf, cost := make([]byte, drainPiece), w.cost
	for left := s.config.MaxFile; left > 0 && s.stopping.Err() == nil; {
		w.control.SetReadDeadline(earlier(end, pace.deadline(time.Now())))
		n, err := r.Body.Read(buf)
		pace.moved(n, time.Now())
		cost.read(n, copyTime)
		left -= int64(n)
		if err != nil {
			return
		}
	}
}

// drainPiece is how much is read at a time of a body that was refused.
const drainPiece = 16 << 10

// takeArrived reads, without a wait, what has come of a body of HTTP/2 that its handler left. Otherwise these bytes
// count as frames beside bodies, each as 200 times the work. net/http discards what comes later.
func (w *Response) takeArrived(r *http.Request) {
	w.control.SetReadDeadline(time.Now().Add(-time.Second)) // the body ends with an error once it is empty
	n, _ := io.Copy(io.Discard, r.Body)
	w.cost.unpaid.Add(int64(copyTime) * n / paceBytes) // add may wait, and the end of the answer with it
}
