package httpapi

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/largejson"
)

const (
	// between comments in a silent stream, so that proxies keep it and a lost client is noticed
	heartbeat = 15 * time.Second
	maxUnsent = 64 << 10 // bytes of output that wait to be sent together with what follows
	pieceHead = 256      // bytes of an output event beside the output, or a little more

	keptUnsent = 16 << 10  // bytes of the buffer of a stream that waits for events
	mostUnsent = 384 << 10 // bytes of the JSON of an event with up to 64 KiB; the log counts larger ones
)

// noBuffering, with "no", makes nginx pass events on at once.
const noBuffering = "X-Accel-Buffering"

// eventStream writes server-sent events (HTML Living Standard, section 9.2). Its methods are safe for concurrent use.
type eventStream struct {
	out   *httpd.Response
	first func()      // appends the first event; may be nil
	gone  func(error) // called once, when the client receives nothing any more; may be nil
	// takes room for so many bytes, besides 64 KiB, until the request ends; nil if the slot of a run counts them
	reserve  func(int64) error
	reserved int64

	mu     sync.Mutex // guards all below, and writing
	buf    bytes.Buffer
	opened bool
	ended  bool
	err    error // of the first write that failed; nothing is written after it
	timer  *time.Timer
}

// start opens the stream after a time, unless an event is earlier, and keeps it alive until close.
func (s *eventStream) start(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(after, s.beat)
}

func (s *eventStream) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.err != nil {
		return
	}
	if s.opened {
		s.buf.WriteString(": still running\n\n")
	}
	s.open()
	_ = s.send() // kept in err
	s.timer.Reset(heartbeat)
}

// do opens the stream, calls write, which appends events, and sends them; with more, it may leave that to the next
// call.
func (s *eventStream) do(more bool, write func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.err != nil {
		return s.err
	}
	s.open()
	write()
	if more && s.buf.Len() < maxUnsent {
		return nil
	}
	return s.send()
}

// open sets the headers and appends the first event. Callers hold mu.
func (s *eventStream) open() {
	if s.opened {
		return
	}
	s.opened = true
	h := s.out.Header()
	h.Set("Content-Type", api.MediaEvents)
	h.Set(noBuffering, "no")
	if s.first != nil {
		s.first()
	}
}

// event appends an event, without an id if id is 0. Callers hold mu.
func (s *eventStream) event(id uint64, name string, data any) {
	s.head(id, name)
	largejson.Encode(&s.buf, data) // ends in the one newline that it holds
	s.buf.WriteByte('\n')
}

// whole sends an event, whose long texts are encoded as they are written.
func (s *eventStream) whole(id uint64, name string, data any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.err != nil {
		return s.err
	}
	s.open()
	s.head(id, name)
	err := s.send()
	if err == nil {
		err = s.write(func() error { return answer.JSONOf(data).EncodeTo(s.out) })
	}
	s.buf.WriteByte('\n')
	if err == nil {
		err = s.send()
	}
	return err
}

// head appends an event up to its data. Callers hold mu.
func (s *eventStream) head(id uint64, name string) {
	if id > 0 {
		s.buf.WriteString("id: " + strconv.FormatUint(id, 10) + "\n")
	}
	s.buf.WriteString("event: " + name + "\ndata: ")
}

// output appends an event of output. Callers hold mu.
func (s *eventStream) output(id uint64, name string, piece api.OutputPiece, data []byte) {
	s.head(id, name)
	s.buf.Grow(len(data) + len(data)/8 + pieceHead)
	s.buf.Write(append(appendOutput(s.buf.AvailableBuffer(), piece, data), "\n\n"...))
}

// send writes buf. Callers hold mu, so a slow reader blocks the program.
func (s *eventStream) send() error {
	need := int64(s.buf.Len()) - maxUnsent - s.reserved
	if need > 0 && s.reserve != nil && s.buf.Len() <= mostUnsent {
		if err := s.reserve(need); err != nil {
			s.buf = bytes.Buffer{}
			return err
		}
		s.reserved += need
	}
	return s.write(func() error {
		_, err := s.out.Write(s.buf.Bytes())
		if s.buf.Reset(); s.buf.Cap() > keptUnsent {
			s.buf = bytes.Buffer{}
		}
		return err
	})
}

// write writes and flushes data, unless the client is gone. Callers hold mu.
func (s *eventStream) write(data func() error) error {
	if s.err != nil {
		return s.err
	}
	if s.err = data(); s.err == nil {
		s.err = s.out.FlushError()
	}
	if s.err != nil && s.gone != nil {
		s.gone(s.err)
	}
	return s.err
}

// broken returns the error of the first write that failed.
func (s *eventStream) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// close ends the stream. Nothing is sent after it.
func (s *eventStream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.timer.Stop()
}

// appendOutput appends the JSON of a piece of output with these bytes.
func appendOutput(b []byte, piece api.OutputPiece, data []byte) []byte {
	b = append(b, `{"time_ms":`...)
	b = strconv.AppendFloat(b, piece.TimeMS, 'f', -1, 64)
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, piece.Offset, 10)
	b = append(b, `,"text":`...)
	b = answer.AppendText(b, data)
	if !utf8.Valid(data) {
		b = append(b, `,"base64":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, data), '"')
	}
	if piece.Dropped != 0 {
		b = append(b, `,"dropped_bytes":`...)
		b = strconv.AppendInt(b, piece.Dropped, 10)
	}
	return append(b, '}')
}
