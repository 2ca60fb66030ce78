package httpapi

import (
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// startAfter is how long a silent stream delays its headers. An earlier refusal (full queue, bad request) gets its own
// HTTP status.
const startAfter = 500 * time.Millisecond

// runStream is the events of a run in a fresh sandbox. Its methods are safe for concurrent use.
type runStream struct {
	eventStream
	begun time.Time // when the run was accepted

	// Guarded by mu:
	events  uint64
	halves  [sandbox.Stderr + 1]half
	telling bool // of progress that has not ended
}

// half is the offset of an output stream, and an incomplete character at its end.
type half struct {
	offset int64
	kept   []byte
}

// newStream returns a stream that sends nothing until its first event or startAfter. It calls gone once, when the
// client receives nothing any more.
func newStream(w *httpd.Response, id sandbox.ID, gone func(error)) *runStream {
	s := &runStream{eventStream: eventStream{out: w, gone: gone}, begun: time.Now()}
	s.first = func() {
		w.Header().Set(api.HeaderRun, string(id))
		s.add(api.EventStarted, api.Started{TimeMS: s.now(), ID: id})
	}
	s.start(startAfter)
	return s
}

// now is the current time_ms.
func (s *runStream) now() float64 { return answer.Millis(time.Since(s.begun)) }

func (s *runStream) next() uint64 {
	s.events++
	return s.events
}

// add appends an event. Callers hold mu.
func (s *runStream) add(name string, data any) { s.event(s.next(), name, data) }

// output is the run's sandbox.OutputFunc.
func (s *runStream) output(from sandbox.Stream, data []byte) {
	_ = s.do(false, func() { // a lost client cancels the run
		h := &s.halves[from]
		if len(h.kept) > 0 {
			data = append(h.kept, data...)
		}
		whole := len(data) - halfRune(data)
		s.piece(from, data[:whole], 0)
		h.kept = append([]byte(nil), data[whole:]...)
	})
}

// piece appends an event for bytes of an output stream, after dropped ones. Callers hold mu.
func (s *runStream) piece(from sandbox.Stream, data []byte, dropped int64) {
	if len(data) == 0 {
		return
	}
	name := api.EventStdout
	if from == sandbox.Stderr {
		name = api.EventStderr
	}
	h := &s.halves[from]
	h.offset += dropped
	s.eventStream.output(s.next(), name, api.OutputPiece{TimeMS: s.now(), Offset: h.offset, Dropped: dropped}, data)
	h.offset += int64(len(data))
}

// progress sends a step before the program starts; "" ends it.
func (s *runStream) progress(text string) {
	s.mu.Lock()
	silent := text == "" && !s.telling
	s.telling = text != ""
	s.mu.Unlock()
	if !silent {
		_ = s.do(false, func() { s.add(api.EventProgress, api.Progress{TimeMS: s.now(), Text: text}) })
	}
}

// finish sends the part of a result that is in events and was not sent yet.
func (s *runStream) finish(r *sandbox.Result) {
	_ = s.do(false, func() {
		s.rest(sandbox.Stdout, r.Stdout)
		s.rest(sandbox.Stderr, r.Stderr)
		for _, v := range answer.NewShown(r.Shown) {
			s.add(api.EventResult, api.ResultEvent{TimeMS: s.now(), Result: v})
		}
		if r.Exception != nil {
			s.add(api.EventException, api.ExceptionEvent{TimeMS: s.now(), Exception: *r.Exception})
		}
	})
}

// rest appends the output that was not sent: an incomplete character, output that came in one piece, and the end of
// output past its limit. Callers hold mu.
func (s *runStream) rest(from sandbox.Stream, c sandbox.Captured) {
	h := &s.halves[from]
	s.piece(from, h.kept, 0)
	h.kept = nil
	if h.offset < int64(len(c.Head)) {
		s.piece(from, c.Head[h.offset:], 0)
	}
	tail := int64(len(c.Head)) + c.Dropped // its offset
	if start := max(h.offset, tail); start-tail < int64(len(c.Tail)) {
		s.piece(from, c.Tail[start-tail:], start-h.offset)
	}
}

// done ends the stream with the outcome.
func (s *runStream) done(outcome *answer.JSON) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open()
	outcome.Stamp(s.now())
	s.head(s.next(), api.EventDone)
	_ = s.send() // errors are kept
	_ = s.write(func() error { return outcome.EncodeTo(s.out) })
	s.buf.WriteByte('\n')
	s.end()
}

// problem ends the stream with a problem. If the headers are not sent yet, it does nothing and returns false: the
// problem can have its own HTTP status.
func (s *runStream) problem(p api.Problem) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened {
		s.rest(sandbox.Stdout, sandbox.Captured{})
		s.rest(sandbox.Stderr, sandbox.Captured{})
		s.add(api.EventProblem, api.ProblemEvent{TimeMS: s.now(), Problem: p})
	}
	s.end()
	return s.opened
}

// end sends what is left. Callers hold mu.
func (s *runStream) end() {
	s.ended = true
	s.timer.Stop()
	if s.opened {
		_ = s.send()
	}
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
