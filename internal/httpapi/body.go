package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Time-outs of a body. A client that sends a byte now and then would otherwise hold its connection for ever.
const (
	bodyIdle  = 15 * time.Second // between two reads
	bodyTotal = 2 * time.Minute
)

// bodyBounds are those of one body.
type bodyBounds struct {
	most        int64
	idle, total time.Duration
}

// firstRead is how much is set aside for a body before its bytes come: a claimed Content-Length costs nothing.
const firstRead = 16 << 10

// readingRoom bounds the bytes of all bodies that are held at the same time. Bodies are read before a slot is taken, so the
// number of slots does not bound them.
type readingRoom struct {
	most int64
	held atomic.Int64
}

func (r *readingRoom) take(n int64) bool {
	if r.held.Add(n) > r.most {
		r.held.Add(-n)
		return false
	}
	return true
}

// body is a request body in memory, counted in a reading room until release.
type body struct {
	bytes.Buffer
	room  *readingRoom
	taken int64
}

func (b *body) release() {
	b.room.held.Add(-b.taken)
	b.taken = 0
}

func (b *body) grow(n int64) bool {
	ok := b.room.take(n)
	if ok {
		b.taken += n
		b.Grow(int(n))
	}
	return ok
}

// readBody reads the whole body of a request. It returns a TooLarge error past its bound, and a Busy one when too many other
// bodies are held. The caller releases the body, also after an error.
func readBody(control *http.ResponseController, r *http.Request, bounds bodyBounds, room *readingRoom) (*body, error) {
	b := &body{room: room}
	most := bounds.most
	if r.Header.Get("Content-Encoding") != "" {
		return b, refuse(http.StatusUnsupportedMediaType, sandbox.Invalid, "the body is compressed", "send it as it is")
	}
	if r.ContentLength > most {
		return b, overBound(most)
	}
	end := time.Now().Add(bounds.total)
	limited := io.LimitReader(r.Body, most+1)
	for {
		if b.Available() == 0 && !b.grow(max(firstRead, int64(b.Len()))) {
			return b, &sandbox.Error{Kind: sandbox.Busy, Msg: "too many bytes of requests are held in memory", Mend: "try again later"}
		}
		control.SetReadDeadline(earlier(end, time.Now().Add(bounds.idle))) // an error means a writer without a connection, as in tests
		free := b.AvailableBuffer()
		n, err := limited.Read(free[:cap(free)])
		b.Write(free[:n])
		if int64(b.Len()) > most {
			return b, overBound(most)
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
