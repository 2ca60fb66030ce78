package httpapi

import (
	"bytes"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// heartbeat is how often a silent stream sends a comment, so that proxies keep it and a lost client is noticed.
const heartbeat = 15 * time.Second

// startAfter is how long a silent stream delays its headers. An earlier refusal (full queue, bad request) gets its own HTTP status.
const startAfter = 500 * time.Millisecond

// stream writes server-sent events (HTML Living Standard, section 9.2). Its methods are safe for concurrent use.
type stream struct {
	id    sandbox.ID // of the execution
	out   *httpd.Response
	gone  func(error)
	begun time.Time // when the run was accepted

	mu      sync.Mutex // guards all below, and writing
	buf     bytes.Buffer
	events  int64
	started bool
	ended   bool
	err     error // of the first write that failed; nothing is written after it
	halves  [sandbox.Stderr + 1]half
	timer   *time.Timer
	told    bool // of progress, whose end it was not told
}

// half is a stream's offset, and an incomplete character at its end.
type half struct {
	offset int64
	kept   []byte
}

// newStream returns a stream that sends nothing until its first event or startAfter. It calls gone once, when the client takes
// nothing any more.
func newStream(w *httpd.Response, id sandbox.ID, gone func(error)) *stream {
	s := &stream{id: id, out: w, gone: gone, begun: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(startAfter, s.beat)
	return s
}

// now is the current time_ms.
func (s *stream) now() float64 { return answer.Millis(time.Since(s.begun)) }

// beat starts the stream, then keeps it alive. The timer calls it.
func (s *stream) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.err != nil {
		return
	}
	if s.started {
		s.buf.WriteString(": still running\n\n")
	}
	s.begin()
	s.send()
	s.timer.Reset(heartbeat)
}

// begin sends the first event before any other. Callers hold mu.
func (s *stream) begin() {
	if s.started {
		return
	}
	s.started = true
	h := s.out.Header()
	h.Set("Content-Type", api.MediaEvents)
	h.Set("X-Accel-Buffering", "no") // or nginx would buffer events
	s.event(api.EventStarted, api.Started{TimeMS: s.now(), ID: s.id, RequestID: s.out.ID})
}

// event appends one event to buf. Callers hold mu.
func (s *stream) event(name string, data any) {
	s.head(name)
	answer.Encode(&s.buf, data) // ends in the one newline that it holds
	s.buf.WriteByte('\n')
}

// head appends an event up to its data. Callers hold mu.
func (s *stream) head(name string) {
	s.events++
	s.buf.WriteString("id: " + strconv.FormatInt(s.events, 10) + "\nevent: " + name + "\ndata: ")
}

// send writes buf out. Callers hold mu, so a slow reader blocks the program.
func (s *stream) send() {
	s.write(func() error {
		_, err := s.out.Write(s.buf.Bytes())
		return err
	})
	s.buf.Reset()
}

// write writes and flushes data, unless the client is gone. Callers hold mu.
func (s *stream) write(data func() error) {
	if s.err != nil {
		return
	}
	if s.err = data(); s.err == nil {
		s.err = s.out.FlushError()
	}
	if s.err != nil {
		s.gone(s.err)
	}
}

// output is the run's sandbox.OutputFunc.
func (s *stream) output(from sandbox.Stream, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.ended {
		return
	}
	s.begin()
	h := &s.halves[from]
	if len(h.kept) > 0 {
		data = append(h.kept, data...)
	}
	whole := len(data) - halfRune(data)
	s.piece(from, data[:whole])
	h.kept = append([]byte(nil), data[whole:]...)
	s.send()
}

// piece appends an event for bytes of one stream. Callers hold mu.
func (s *stream) piece(from sandbox.Stream, data []byte) {
	if len(data) == 0 {
		return
	}
	name := api.EventStdout
	if from == sandbox.Stderr {
		name = api.EventStderr
	}
	s.head(name)
	b := appendPiece(s.buf.AvailableBuffer(), s.now(), s.halves[from].offset, data, 0)
	s.buf.Write(append(b, "\n\n"...))
	s.halves[from].offset += int64(len(data))
}

// progress sends what is done before the program starts; "" is its end.
func (s *stream) progress(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" && !s.told || s.ended || s.err != nil {
		return
	}
	s.told = text != ""
	s.begin()
	s.event(api.EventProgress, api.Progress{TimeMS: s.now(), Text: text})
	s.send()
}

// done ends the stream with the answer.
func (s *stream) done(text *answer.JSON) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	s.rest()
	text.Stamp(s.now())
	s.head(api.EventDone)
	s.send()
	s.write(func() error { return text.EncodeTo(s.out) })
	s.buf.WriteByte('\n')
	s.end()
}

// rest appends the characters that stayed incomplete. Callers hold mu.
func (s *stream) rest() {
	for _, from := range []sandbox.Stream{sandbox.Stdout, sandbox.Stderr} {
		s.piece(from, s.halves[from].kept)
	}
}

// problem ends the stream with a problem. If the headers are not sent yet, it does nothing and returns false: the problem can have its
// own HTTP status.
func (s *stream) problem(p api.Problem) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.started
	if sent {
		s.rest()
		s.event(api.EventProblem, api.ProblemEvent{TimeMS: s.now(), Problem: p})
	}
	s.end()
	return sent
}

// end sends the rest and nothing after it. Callers hold mu.
func (s *stream) end() {
	s.ended = true
	s.timer.Stop()
	if s.started {
		s.send()
	}
}

// close stops the timer if the run ended without an event.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.timer.Stop()
}

// halfRune returns the length of an incomplete character at the end of p.
func halfRune(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		c := p[len(p)-n]
		if !utf8.RuneStart(c) {
			continue
		}
		if c >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-n:]) {
			return n
		}
		return 0
	}
	return 0
}
