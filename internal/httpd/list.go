package httpd

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/largejson"
)

// List is an answer with one list, whose entries are sent as they come. So memory holds at most 64 KiB and one entry.
type List struct {
	server *Server
	w      *Response
	name   string
	buf    bytes.Buffer
	begun  bool // the headers are sent
	count  int

	reserved int64
}

// NewList begins an answer {"name": [...]}, or only the list if the name is "". Nothing is sent before the first 64
// KiB, so that an early failure has its own status. The caller calls End, unless it fails.
func (s *Server) NewList(w *Response, name string) *List {
	l := &List{server: s, w: w, name: name}
	if name != "" {
		l.buf.WriteString(`{` + strconv.Quote(name) + `:`)
	}
	l.buf.WriteByte('[')
	return l
}

// NewListAfter is NewList with the fields of a struct before the list.
func (s *Server) NewListAfter(w *Response, fields any, name string) *List {
	l := &List{server: s, w: w, name: name}
	largejson.Encode(&l.buf, fields)
	l.buf.Truncate(l.buf.Len() - len("}\n"))
	l.buf.WriteString(`,` + strconv.Quote(name) + `:[`)
	return l
}

// Add adds an entry, whose type always has a JSON form. It returns an error if the client takes nothing any more.
func (l *List) Add(entry any) error {
	if l.count++; l.count > 1 {
		l.buf.WriteByte(',')
	}
	largejson.Encode(&l.buf, entry)
	l.buf.Truncate(l.buf.Len() - 1) // the newline
	l.w.Steps(1)
	if l.buf.Len() < FreeAnswer {
		return nil
	}
	return l.send(false)
}

// send sends what is in the buffer.
func (l *List) send(last bool) error {
	need := int64(l.buf.Cap()) - 2*FreeAnswer - l.reserved
	if err := l.server.TryReserve(l.w, need); err != nil {
		return err
	}
	l.reserved += max(0, need)
	if !l.begun {
		l.begun = true
		if last {
			l.w.Header().Set("Content-Length", strconv.Itoa(l.buf.Len()))
		}
		l.w.Header().Set("Content-Type", api.MediaJSON)
		l.w.WriteHeader(http.StatusOK)
	}
	_, err := l.w.Write(l.buf.Bytes())
	if err != nil {
		l.server.metrics.slowReaders.Inc()
	}
	l.buf.Reset()
	return err
}

// End ends the answer. more, if not nil, reports whether there are more entries; a list without a name has none.
func (l *List) End(more *bool) error {
	l.buf.WriteByte(']')
	if more != nil {
		l.buf.WriteString(`,"more":` + strconv.FormatBool(*more))
	}
	if l.name != "" {
		l.buf.WriteByte('}')
	}
	l.buf.WriteByte('\n')
	if err := l.send(true); err != nil {
		return l.Fail(err)
	}
	return nil
}

// Fail returns the error that the handler returns for a list that broke off. It cuts the connection if a part of the
// list is sent.
func (l *List) Fail(err error) error {
	if l.begun {
		panic(http.ErrAbortHandler)
	}
	return err
}
