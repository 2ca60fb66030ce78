package httpapi

import (
	"bytes"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/answer"
	"github.com/glovebox-dev/glovebox/internal/httpd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// The events of a stream, in the order in which they may come. Exactly one of done and problem is the last. An event called result is
// reserved for values that the code shows.
const (
	eventStarted = "started"
	eventStdout  = "stdout"
	eventStderr  = "stderr"
	eventDone    = "done"
	eventProblem = "problem"
)

// Started is the data of the event that says that the request was accepted. Before it, a request that cannot be served gets a
// problem with its own HTTP status.
type Started struct {
	TimeMS    float64    `json:"time_ms" doc:"Milliseconds since the run was accepted, by a clock that nobody sets."`
	ID        sandbox.ID `json:"id" doc:"Of the execution, as done will say."`
	RequestID string     `json:"request_id" doc:"Stands in the server's log."`
}

// Piece is the data of a stdout or stderr event: the next bytes of that stream, up to its output limit.
//
// The pieces of a stream, put together, are its bytes exactly: those of base64 where a piece has it, else those of text as
// UTF-8. A character that comes in two halves is held back until it is whole, at the latest until the end, so only output
// that is not UTF-8 needs base64.
type Piece struct {
	TimeMS float64 `json:"time_ms" doc:"Milliseconds since the run was accepted."`
	Offset int64   `json:"offset" doc:"Of the first byte in its stream."`
	Text   string  `json:"text" doc:"The bytes as text; where they are not UTF-8, with U+FFFD in place of what is not."`
	Base64 []byte  `json:"base64,omitempty" doc:"The bytes as they were, only where they are not all UTF-8."`
}

// Done is the data of the last event of a run that ended in a status.
type Done struct {
	TimeMS float64 `json:"time_ms" doc:"Milliseconds since the run was accepted."`
	answer.Answer
}

// Failure is the data of a problem event.
type Failure struct {
	TimeMS float64 `json:"time_ms" doc:"Milliseconds since the run was accepted."`
	answer.Problem
}

// heartbeat is how often a silent stream sends a comment, so that proxies keep it and a vanished client is noticed.
const heartbeat = 15 * time.Second

// startAfter is how long a stream may wait silently before its headers are sent. A refusal that takes less (a full queue, a bad
// request) still gets its own HTTP status.
const startAfter = 500 * time.Millisecond

// stream writes server-sent events (HTML Living Standard, section 9.2). Its methods may be called from several goroutines.
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
}

// half is a stream's place, and the beginning of a character whose rest has not come.
type half struct {
	offset int64
	kept   []byte
}

// newStream returns a stream that sends nothing until its first event, or until startAfter. gone is called, once, when the
// client takes nothing any more.
func newStream(w *httpd.Response, id sandbox.ID, gone func(error)) *stream {
	s := &stream{id: id, out: w, gone: gone, begun: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(startAfter, s.beat)
	return s
}

// now is the time_ms of what happens now.
func (s *stream) now() float64 { return answer.Millis(time.Since(s.begun)) }

// beat runs from the timer: it begins the stream, then keeps it alive.
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

// begin puts the first event before whatever comes. It is called with mu held.
func (s *stream) begin() {
	if s.started {
		return
	}
	s.started = true
	h := s.out.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // or nginx would hold events back
	s.event(eventStarted, Started{TimeMS: s.now(), ID: s.id, RequestID: s.out.ID})
}

// event appends one event to buf. It is called with mu held.
func (s *stream) event(name string, data any) {
	s.head(name)
	answer.Encode(&s.buf, data) // ends in the one newline that it holds
	s.buf.WriteByte('\n')
}

// head appends all of an event that stands before its data. It is called with mu held.
func (s *stream) head(name string) {
	s.events++
	s.buf.WriteString("id: " + strconv.FormatInt(s.events, 10) + "\nevent: " + name + "\ndata: ")
}

// send writes buf out. It is called with mu held: whoever comes meanwhile waits, which is what holds up a program whose reader
// is slow.
func (s *stream) send() {
	s.write(func() error {
		_, err := s.out.Write(s.buf.Bytes())
		return err
	})
	s.buf.Reset()
}

// write lets data be written and sent on its way, unless the client is gone. It is called with mu held.
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

// piece appends an event for bytes of one stream. It is called with mu held.
func (s *stream) piece(from sandbox.Stream, data []byte) {
	if len(data) == 0 {
		return
	}
	name := eventStdout
	if from == sandbox.Stderr {
		name = eventStderr
	}
	p := Piece{TimeMS: s.now(), Offset: s.halves[from].offset, Text: string(data)} // the encoder puts U+FFFD for what is not UTF-8
	if !utf8.Valid(data) {
		p.Base64 = data
	}
	s.halves[from].offset += int64(len(data))
	s.event(name, p)
}

// done ends the stream with the answer, whose JSON is one line.
func (s *stream) done(text *answer.JSON) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	s.rest()
	text.Stamp(s.now())
	s.head(eventDone)
	s.send()
	s.write(func() error { return text.EncodeTo(s.out) })
	s.buf.WriteByte('\n')
	s.end()
}

// rest appends what was held back: no other half comes now. It is called with mu held.
func (s *stream) rest() {
	for _, from := range []sandbox.Stream{sandbox.Stdout, sandbox.Stderr} {
		s.piece(from, s.halves[from].kept)
	}
}

// problem ends the stream with a problem. It returns false, having done nothing, if the headers are not sent yet: then the
// problem can have its own HTTP status.
func (s *stream) problem(p answer.Problem) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.started
	if sent {
		s.rest()
		s.event(eventProblem, Failure{s.now(), p})
	}
	s.end()
	return sent
}

// end sends what is left; nothing is sent after it. It is called with mu held.
func (s *stream) end() {
	s.ended = true
	s.timer.Stop()
	if s.started {
		s.send()
	}
}

// close stops the timer when the run ended in another way.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.timer.Stop()
}

// halfRune says how many bytes at the end of p are the beginning of a character whose rest may follow.
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
