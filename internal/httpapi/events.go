package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// runEvents is GET /v1/sandboxes/{id}/runs/{run}/events. A browser that reconnects repeats the query, so the header
// counts.
func (a *apiV1) runEvents(w *httpd.Response, r *http.Request, x *engine.Run) error {
	after, last := uint64(0), x.LastEvent()+startedID
	for _, from := range []struct {
		field  string
		values []string
	}{{"after", r.URL.Query()["after"]}, {"Last-Event-ID", r.Header.Values("Last-Event-ID")}} {
		if len(from.values) == 0 {
			continue
		}
		field, text := from.field, from.values[0]
		var err error
		if after, err = strconv.ParseUint(text, 10, 63); err != nil {
			return sandbox.Invalidf(field, "%.40q is not the id of an event", text)
		}
		if after > last {
			return sandbox.Invalidf(field, "there is no event %d; the last is %d", after, last)
		}
	}
	until := uint64(math.MaxUint64)
	if text := (&query{r: r}).text("follow"); text == "0" || text == "false" {
		until = last
	}
	w.Header().Set(api.HeaderRun, string(x.ID()))
	return a.follow(w, r, x, after, until)
}

// largeFactor is how often a large event is in memory while it is sent: as it was logged, decoded, and as JSON, which
// grows.
const largeFactor = 5

// startedID is the id of the event started. No log has it, so the ids of all events of a log are larger by it.
const startedID = 1

// errFollowed ends the stream of a client that requested the recorded events.
var errFollowed = errors.New("that was the last event")

// follow sends the events of a run after one, up to another, and waits for those to come, until the run ends, the
// client leaves or the server stops. The run continues without it.
func (a *apiV1) follow(w *httpd.Response, r *http.Request, x *engine.Run, after, until uint64) error {
	s := &eventStream{out: w, reserve: func(n int64) error { return a.TryReserve(w, n) }}
	if after < startedID {
		s.first = func() { s.event(startedID, api.EventStarted, api.Started{ID: x.ID()}) }
	}
	return a.streamEvents(w, r, s, func(ctx context.Context) error {
		if after >= until || until <= startedID {
			return nil
		}
		room := a.RoomForEvents(w, largeFactor)
		err := x.FollowIn(ctx, max(after, startedID)-startedID, room, func(e engine.Event) error {
			if err := a.sendEvent(w, s, x, e); err != nil || e.ID+startedID < until {
				return err
			}
			return errFollowed
		})
		if errors.Is(err, errFollowed) {
			return s.do(false, func() {})
		}
		return err
	})
}

// streamEvents opens a stream and calls send with a context that ends when the client leaves or the server stops. An
// error of send is the last event.
func (a *apiV1) streamEvents(w *httpd.Response, r *http.Request, s *eventStream,
	send func(context.Context) error) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.Stopping(), cancel)()
	s.start(heartbeat)
	defer s.close()
	if r.Method == http.MethodHead {
		s.first = nil
	}
	err := s.do(false, func() {})
	if err == nil && r.Method != http.MethodHead {
		err = send(ctx)
	}
	if s.broken() != nil {
		a.LostClient()
	} else if err != nil && ctx.Err() == nil { // the sandbox has ended, and its logs with it
		_ = s.do(false, func() { s.event(0, api.EventProblem, api.ProblemEvent{Problem: a.Problem(w, err)}) })
	}
	return nil
}

// sendEvent sends one event of a log.
func (a *apiV1) sendEvent(w *httpd.Response, s *eventStream, x *engine.Run, e engine.Event) error {
	at, id := answer.Millis(e.Time), e.ID+startedID
	var name string
	var data any
	switch {
	case e.Result != nil:
		result := answer.NewResults([]sandbox.Value{*e.Result})[0]
		return s.whole(id, api.EventResult, &api.ResultEvent{TimeMS: at, Result: result})
	case e.Exception != nil:
		return s.whole(id, api.EventException, &api.ExceptionEvent{TimeMS: at, Exception: *e.Exception})
	case e.Step != nil:
		name, data = api.EventProgress, api.Progress{TimeMS: at, Text: *e.Step}
	case e.Call != nil:
		name, data = api.EventCall, showCall(at, *e.Call)
	case e.Answered != nil:
		name, data = api.EventAnswered, api.AnsweredEvent{TimeMS: at, Call: e.Answered.ID, Name: e.Answered.Name,
			Error: e.Answered.Error}
	case e.Ended == nil:
		piece := api.OutputPiece{TimeMS: at, Offset: e.Offset, Dropped: e.Dropped}
		return s.do(e.More, func() { s.output(id, e.Kind.String(), piece, e.Data) })
	case e.Ended.Failure != "":
		name, data = api.EventProblem, api.ProblemEvent{TimeMS: at, Problem: a.Problem(w, x.Failure())}
	default:
		d := e.Ended
		outcome := answer.NewOutcome(wording.HTTP, &sandbox.Result{ID: x.ID(), Status: d.Status, ExitCode: d.ExitCode,
			Signal: d.Signal, Exception: d.Exception, Usage: d.Usage, Timings: d.Timings, Hints: d.Hints,
			Packages: d.Packages, Findings: d.Findings, Background: d.Background})
		name, data = api.EventDone, api.Done{TimeMS: at, Outcome: outcome}
	}
	return s.do(false, func() { s.event(id, name, data) })
}
