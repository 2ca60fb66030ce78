package httpd

import (
	"context"
	"log/slog"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// FreeAnswer is how much of each answer needs no room, so that small ones are always sent. Connections are limited too.
const FreeAnswer = 64 << 10

// LayOut converts a result to its answer. more is the size of other values that the caller holds until the request
// ends. It must not wait for the client, as the run holds its slot.
type LayOut func(*sandbox.Result) (text *largejson.JSON, more int64)

// Reserve takes n bytes of the room for answers until the request ends, as soon as they are free. Handlers reserve what
// they hold while their client reads, beyond 64 KiB. It returns TooLarge if a client may never hold as much, and Busy
// if it takes too long.
func (s *Server) Reserve(ctx context.Context, w *Response, n int64) error {
	return w.reserve(ctx, s.answers, n, s.waits.answer)
}

// TryReserve is Reserve without a wait, for what is in memory already: otherwise the answers that wait would be held
// uncounted.
func (s *Server) TryReserve(w *Response, n int64) error {
	return w.reserve(context.Background(), s.answers, n, 0)
}

// logWork is how often the bytes of a large event count as work, which is decoded from its log.
const logWork = 2

// RoomForEvents returns what an eventlog.Log asks for room for its large events, each of which is in memory factor
// times, and counts them as work.
func (s *Server) RoomForEvents(w *Response, factor int64) func(context.Context, int64) (release func(), err error) {
	cost := w.cost // another goroutine may keep the answer alive
	return func(ctx context.Context, bytes int64) (func(), error) {
		cost.addBytes(int(logWork*bytes), encodeTime)
		return s.TakeRoom(ctx, w, factor*bytes)
	}
}

// TakeRoom is Reserve for at most the client's share. The caller releases the bytes once.
func (s *Server) TakeRoom(ctx context.Context, w *Response, n int64) (release func(), err error) {
	n = min(n, s.answers.Share())
	if !s.answers.Wait(ctx, w.owner, n, s.waits.answer) {
		return nil, &sandbox.Error{Kind: sandbox.Busy, Msg: "too many answers to slow readers are held in memory",
			Fix: "read answers sooner, or try again later"}
	}
	return func() { s.answers.Give(w.owner, n) }, nil
}

// CarryOut runs for the owner of a request. The answer takes its room while the run still holds its slot. So the room
// limits what is held for slow readers, and the slots limit what waits for room.
func (s *Server) CarryOut(ctx context.Context, w *Response, run engine.OneShot, layOut LayOut) (*largejson.JSON,
	error) {
	run.Owner = w.Key
	return s.Hold(ctx, w, &run.Request, layOut, func(deliver func(*sandbox.Result) error) error {
		run.Deliver = deliver
		_, err := s.config.Engine.Run(ctx, run)
		return err
	})
}

// Hold performs a request, which hands its result to deliver, and returns the answer. Its room is taken until the
// request ends.
func (s *Server) Hold(ctx context.Context, w *Response, request *sandbox.Request, layOut LayOut,
	perform func(deliver func(*sandbox.Result) error) error) (text *largejson.JSON, err error) {
	err = perform(func(result *sandbox.Result) error {
		s.ran(w, request, result)
		laid, more := layOut(result)
		// they are in the answer
		result.Stdout, result.Stderr, result.Files, result.Results = sandbox.Captured{}, sandbox.Captured{}, nil, nil
		if err := s.Reserve(ctx, w, laid.Size()+more-FreeAnswer); err != nil {
			return &sandbox.Error{Kind: sandbox.KindOf(err), Msg: "the run ended, but its answer was dropped", Err: err}
		}
		text = laid
		return nil
	})
	return text, err
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
