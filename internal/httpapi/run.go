package httpapi

import (
	"context"
	"log/slog"
	"mime"
	"net/http"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// readJSON reads and decodes the body of a request. The body stays counted as held until release is called, which the caller
// always does: what was decoded lives as long as the run. Release may be called twice.
func (s *Server) readJSON(w *response, r *http.Request, into any) (release func(), err error) {
	if err := checkContentType(r); err != nil {
		return func() {}, err
	}
	b, err := readBody(w.control, r, bodyBounds{s.config.MaxBody, pace{rate: leastRate, timeout: s.waits.body}, s.waits.bodyTotal}, s.bodies, w.owner)
	if err == nil {
		w.unread = false
		err = decode(b.data, into)
	}
	b.data = nil // what was decoded is a copy
	return b.release, err
}

// run is POST /v1/run.
func (s *Server) run(w *response, r *http.Request) error {
	var req RunRequest
	release, err := s.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	run, err := req.run()
	if err != nil {
		return err
	}
	run.Owner = w.key
	if wantsEvents(r) {
		return s.stream(w, r, run, release)
	}
	answer, err := s.carryOut(r.Context(), w, run, layOutAnswer)
	defer answer.release()
	if err != nil {
		return err
	}
	release()
	return s.writeText(w, answer.text)
}

func layOutAnswer(r *sandbox.Result) *jsonText {
	a := NewAnswer(r)
	return a.layOut()
}

// stream runs and sends what happens as it happens. A client that goes away, or takes nothing, cancels the run. Release gives
// back the room of the body.
func (s *Server) stream(w *response, r *http.Request, run engine.Run, release func()) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	run.ID = sandbox.NewID()
	events := newStream(w, run.ID, func(err error) {
		s.metrics.slowReaders.Inc()
		cancel(err)
	})
	defer events.close()
	run.Request.Output = events.output
	answer, err := s.carryOut(ctx, w, run, layOutAnswer)
	defer answer.release()
	if err != nil {
		if events.problem(s.problem(w, err)) {
			return nil
		}
		return err
	}
	release()
	events.result(answer.text)
	return nil
}

// wantsEvents says whether the client accepts server-sent events.
func wantsEvents(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if err == nil && kind == "text/event-stream" && params["q"] != "0" {
				return true
			}
		}
	}
	return false
}

// ran records a run that ended in a status. Nothing that the program wrote is among it; metadata is the caller's, bounded, and
// escaped by the log.
func (s *Server) ran(w *response, run engine.Run, r *sandbox.Result) {
	language := "command"
	if run.Request.Code != nil {
		if l, err := s.config.Engine.Language(run.Request.Language); err == nil {
			language = l.Name // of our own list, so that labels stay few
		}
	}
	s.metrics.run(language, r)
	var metadata []any
	for name, value := range run.Request.Metadata {
		metadata = append(metadata, slog.String(name, value))
	}
	s.log.Info("run", "request_id", w.id, "id", string(r.ID), "key", w.key, "language", language, "status", string(r.Status),
		"backend", r.Effective.Backend, "queue", r.Timings.Queue, "create", r.Timings.Create, "run", r.Timings.Run,
		slog.Group("metadata", metadata...))
}
