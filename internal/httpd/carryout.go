package httpd

import (
	"context"
	"log/slog"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// freeAnswer is how much of each answer needs no room, so that small ones are always sent. Connections are limited too.
const freeAnswer = 64 << 10

// LayOut converts a result to its answer. more is the size of other values that the caller holds until Release. It must
// not wait for the client, as the run holds its slot.
type LayOut func(*sandbox.Result) (text *answer.JSON, more int64)

// HeldAnswer is an answer in memory, counted in the room for answers until Release.
type HeldAnswer struct {
	Text  *answer.JSON
	room  *room.Room
	owner string
	taken int64
}

// Release frees the room of the answer. It may be called twice.
func (a *HeldAnswer) Release() {
	a.room.Give(a.owner, a.taken)
	a.taken = 0
}

// TakeRoom takes n bytes of the room for answers, at most the client's share, as soon as they are free. The caller
// releases them once.
func (s *Server) TakeRoom(ctx context.Context, w *Response, n int64) (release func(), err error) {
	n = min(n, s.answers.Share())
	if !s.answers.Wait(ctx, w.owner, n, s.waits.answer) {
		return nil, &sandbox.Error{Kind: sandbox.Busy, Msg: "too many answers to slow readers are held in memory",
			Fix: "read answers sooner, or try again later"}
	}
	return func() { s.answers.Give(w.owner, n) }, nil
}

// CarryOut runs for the owner of a request. The answer takes its room while the run still holds its slot. So the room
// limits what is held for slow readers, and the slots limit what waits for room. The caller releases the answer, also
// after an error.
func (s *Server) CarryOut(ctx context.Context, w *Response, run engine.OneShot,
	layOut LayOut) (*HeldAnswer, error) {
	run.Owner = w.Key
	return s.Hold(ctx, w, &run.Request, layOut, func(deliver func(*sandbox.Result) error) error {
		run.Deliver = deliver
		_, err := s.config.Engine.Run(ctx, run)
		return err
	})
}

// Hold performs a request, which hands its result to deliver, and holds the answer. The caller releases it, also after
// an error.
func (s *Server) Hold(ctx context.Context, w *Response, request *sandbox.Request, layOut LayOut,
	perform func(deliver func(*sandbox.Result) error) error) (*HeldAnswer, error) {
	a := &HeldAnswer{room: s.answers, owner: w.owner}
	err := perform(func(result *sandbox.Result) error {
		s.ran(w, request, result)
		text, more := layOut(result)
		// they are in the answer
		result.Stdout, result.Stderr, result.Files, result.Results = sandbox.Captured{}, sandbox.Captured{}, nil, nil
		need := max(0, text.Size()+more-freeAnswer)
		if need > a.room.Share() {
			return &sandbox.Error{Kind: sandbox.TooLarge, Fix: "request less output or fewer files",
				Msg: "the run ended, but its answer is over the limit of " + sandbox.FormatBytes(a.room.Share()) +
					" for the unread answers of one client"}
		}
		if !a.room.Wait(ctx, a.owner, need, s.waits.answer) {
			return &sandbox.Error{Kind: sandbox.Busy, Fix: "read answers sooner, or try again later",
				Msg: "the run ended, but its answer was dropped: too many answers to slow readers are held in memory"}
		}
		a.Text, a.taken = text, need
		return nil
	})
	return a, err
}

// Began logs a run that continues without its client.
func (s *Server) Began(w *Response, request *sandbox.Request, id sandbox.ID) {
	s.log.Info("run began", "request_id", w.ID, "id", string(id), "key", w.Key, "language", s.languageOf(request),
		metadataOf(request))
}

// ran logs a run that ended in a status, without the program's output.
func (s *Server) ran(w *Response, request *sandbox.Request, r *sandbox.Result) {
	s.log.Info("run", "request_id", w.ID, "id", string(r.ID), "key", w.Key, "language", s.languageOf(request),
		"status", string(r.Status), "backend", r.Effective.Backend, "queue", r.Timings.Queue,
		"create", r.Timings.Create, "run", r.Timings.Run, metadataOf(request))
}

// languageOf resolves the alias of a run's language. It returns "command" for a command.
func (s *Server) languageOf(request *sandbox.Request) string {
	if request.Language != "" {
		if l, err := s.config.Engine.Language(request.Language); err == nil {
			return l.Name
		}
	}
	return "command"
}

// metadataOf returns the metadata of a request, which is bounded. The log escapes it.
func metadataOf(request *sandbox.Request) slog.Attr {
	var metadata []any
	for name, value := range request.Metadata {
		metadata = append(metadata, slog.String(name, value))
	}
	return slog.Group("metadata", metadata...)
}
