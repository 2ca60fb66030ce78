package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// bodyBounds are those of one body. A client that sends a byte now and then would otherwise hold its connection, and its part of
// the room, for ever.
type bodyBounds struct {
	most  int64
	pace  pace
	total time.Duration
}

// freeBody is how much of each body needs no room, so that small requests are read however full it is; connections are bounded.
const freeBody = 16 << 10

// body is a request body in memory, counted in a room until release. Bodies are read before a slot is taken, so the number of slots
// does not bound them.
type body struct {
	data  []byte
	room  *room
	owner string
	taken int64
}

func (b *body) release() {
	b.room.give(b.owner, b.taken)
	b.taken = 0
}

// grow makes space for twice as much, but not for more than most: a claimed length costs nothing until half of it has come.
func (b *body) grow(most int64) bool {
	size := min(max(2*int64(cap(b.data)), freeBody), most)
	more := max(0, size-freeBody) - b.taken
	if !b.room.take(b.owner, more) {
		return false
	}
	b.taken += more
	b.data = append(make([]byte, 0, size), b.data...)
	return true
}

// readBody reads the whole body of a request. It returns a TooLarge error past its bound, and a Busy one when too many other
// bodies are held. The caller releases the body, also after an error.
func readBody(control *http.ResponseController, r *http.Request, bounds bodyBounds, room *room, owner string) (*body, error) {
	b := &body{room: room, owner: owner}
	if r.Header.Get("Content-Encoding") != "" {
		return b, refuse(http.StatusUnsupportedMediaType, sandbox.Invalid, "the body is compressed", "send it as it is")
	}
	if r.ContentLength > bounds.most {
		return b, overBound(bounds.most)
	}
	size := bounds.most + 1 // one more, in which to see that there is too much, or no more
	if r.ContentLength >= 0 {
		size = r.ContentLength + 1
	}
	end, pace := time.Now().Add(bounds.total), bounds.pace
	for {
		if len(b.data) == cap(b.data) && !b.grow(size) {
			return b, &sandbox.Error{Kind: sandbox.Busy, Msg: "too many bytes of requests are held in memory", Fix: "try again later"}
		}
		control.SetReadDeadline(earlier(end, pace.deadline(time.Now()))) // an error means a writer without a connection, as in tests
		n, err := r.Body.Read(b.data[len(b.data):cap(b.data)])
		pace.moved(n, time.Now())
		b.data = b.data[:len(b.data)+n]
		if int64(len(b.data)) > bounds.most {
			return b, overBound(bounds.most)
		}
		if err == io.EOF {
			// Without this the old deadline would fall due during the run, and count as the client having gone away.
			control.SetReadDeadline(time.Time{})
			return b, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return b, refuse(http.StatusRequestTimeout, sandbox.Invalid, "the body came too slowly", "")
		}
		if err != nil {
			return b, refuse(http.StatusBadRequest, sandbox.Invalid, "the body could not be read to its end", "")
		}
	}
}

func overBound(most int64) error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Msg: "the body is over the bound of " + sandbox.FormatBytes(most)}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
