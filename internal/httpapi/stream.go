package httpapi

import (
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// startAfter is how long a silent stream delays its headers. An earlier refusal (full queue, bad request) gets its own
// HTTP status.
const startAfter = 500 * time.Millisecond

// runStream is the events of a run in a fresh sandbox. Its methods are safe for concurrent use.
type runStream struct {
	eventStream
	begun time.Time   // when the run was accepted
	held  []heldEvent // set by holdRest

	// Guarded by mu:
	events  uint64
	halves  [sandbox.Stderr + 1]half
	telling bool // of progress that has not ended
}

// heldEvent is an event that is sent after the run has released its slot.
type heldEvent struct {
	name string
	data *largejson.JSON
}

// half is the offset of an output stream, and an incomplete character at its end.
type half struct {
	offset int64
	kept   []byte
}

// newStream returns a stream that sends nothing until its first event or startAfter. It calls gone once, when the
// client receives nothing any more.
func newStream(w *httpd.Response, id sandbox.ID, gone func(error)) *runStream {
	s := &runStream{eventStream: eventStream{out: w, gone: gone}, begun: time.Now(), events: startedID}
	s.first = func() {
		w.Header().Set(api.HeaderRun, string(id))
		s.event(startedID, api.EventStarted, api.Started{ID: id, RequestID: w.ID})
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
		s.piece(from, data[:whole])
		h.kept = append([]byte(nil), data[whole:]...)
	})
}

// piece appends an event for the next bytes of an output stream. Callers hold mu.
func (s *runStream) piece(from sandbox.Stream, data []byte) {
	if len(data) == 0 {
		return
	}
	h := &s.halves[from]
	s.eventStream.output(s.next(), from.String(), api.OutputPiece{TimeMS: s.now(), Offset: h.offset}, data)
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

// call sends a call of a tool.
func (s *runStream) call(c sandbox.Call) {
	_ = s.do(false, func() { s.add(api.EventCall, showCall(s.now(), c)) })
}

// answered sends that a call has its answer.
func (s *runStream) answered(c sandbox.Call, failure string) {
	_ = s.do(false, func() {
		s.add(api.EventAnswered, api.AnsweredEvent{TimeMS: s.now(), Call: c.ID, Name: c.Name, Error: failure})
	})
}

// holdRest keeps the events of a result that were not sent yet until done, and returns their size in memory. It never
// waits for the client: it takes no lock, as no output comes after the result.
func (s *runStream) holdRest(r *sandbox.Result) (size int64) {
	s.holdOutput(sandbox.Stdout, r.Stdout)
	s.holdOutput(sandbox.Stderr, r.Stderr)
	for _, v := range answer.NewResults(r.Results) {
		s.hold(api.EventResult, &api.ResultEvent{TimeMS: s.now(), Result: v})
	}
	if r.Exception != nil {
		s.hold(api.EventException, &api.ExceptionEvent{TimeMS: s.now(), Exception: *r.Exception})
	}
	for _, e := range s.held {
		size += e.data.Size()
	}
	return size
}

func (s *runStream) hold(name string, data any) {
	s.held = append(s.held, heldEvent{name, answer.JSONOf(data)})
}

// holdOutput keeps the output that was not sent: an incomplete character, output that came in one piece, and the end
// of output past its limit.
func (s *runStream) holdOutput(from sandbox.Stream, c sandbox.Captured) {
	offset := s.halves[from].offset
	piece := func(data []byte, dropped int64) {
		if len(data) == 0 {
			return
		}
		p := api.OutputPiece{TimeMS: s.now(), Offset: offset + dropped, Dropped: dropped, Text: string(data)}
		if !utf8.Valid(data) {
			p.Base64 = data
		}
		offset = p.Offset + int64(len(data))
		s.hold(from.String(), &p)
	}
	piece(s.halves[from].kept, 0)
	piece(c.Head[min(offset, int64(len(c.Head))):], 0)
	tail := int64(len(c.Head)) + c.Dropped // its offset
	if start := max(offset, tail); start-tail < int64(len(c.Tail)) {
		piece(c.Tail[start-tail:], start-offset)
	}
}

// done ends the stream with the held events and the outcome.
func (s *runStream) done(outcome *largejson.JSON) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open()
	outcome.Stamp(s.now())
	for _, e := range append(s.held, heldEvent{api.EventDone, outcome}) {
		s.head(s.next(), e.name)
		_ = s.send() // errors are kept
		_ = s.write(func() error { return e.data.EncodeTo(s.out) })
		s.buf.WriteByte('\n')
	}
	s.end()
}

// problem ends the stream with a problem. If the headers are not sent yet, it does nothing and returns false: the
// problem can have its own HTTP status.
func (s *runStream) problem(p api.Problem) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = nil // no room was taken for it
	if s.opened {
		s.piece(sandbox.Stdout, s.halves[sandbox.Stdout].kept)
		s.piece(sandbox.Stderr, s.halves[sandbox.Stderr].kept)
		s.add(api.EventProblem, api.ProblemEvent{TimeMS: s.now(), Problem: p})
	}
	s.end()
	return s.opened
}

// end ends the stream after the buffered events. Callers hold mu.
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
