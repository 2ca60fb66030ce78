package httpapi

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// runEvents is GET /v1/sandboxes/{id}/runs/{run}/events. A browser that reconnects repeats the query, so the header counts.
func (a *apiV1) runEvents(w *httpd.Response, r *http.Request, x *engine.Execution) error {
	field, text := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if text == "" {
		field, text = "after", (&query{r: r}).text("after")
	}
	after := uint64(0)
	if text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 63); err != nil {
			return sandbox.Invalidf(field, "%.40q is not the id of an event", text)
		}
	}
	if last := x.LastEvent(); after > last {
		return sandbox.Invalidf(field, "there is no event %d; the last is %d", after, last)
	}
	until := uint64(math.MaxUint64)
	if text := (&query{r: r}).text("follow"); text == "0" || text == "false" {
		until = x.LastEvent()
	}
	w.Header().Set(api.HeaderRun, string(x.ID()))
	return a.follow(w, r, x, after, until)
}

// largeFactor is how often a large event is in memory while it is sent: as it was logged, decoded, and as JSON, which grows.
const largeFactor = 5

// errFollowed ends the stream of a client that asked for the events that are there.
var errFollowed = errors.New("that was the last event")

// follow sends the events of a run after one, up to another, and waits for those to come, until the run ends, the client leaves or the server
// stops. The run goes on without it.
func (a *apiV1) follow(w *httpd.Response, r *http.Request, x *engine.Execution, after, until uint64) error {
	h := w.Header()
	h.Set("Content-Type", api.MediaEvents)
	h.Set("X-Accel-Buffering", "no") // or nginx would buffer events
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.Stopping(), cancel)()
	f := newFeed(w)
	defer f.close()
	err := f.flush()
	if err == nil && after < until {
		room := func(ctx context.Context, bytes int64) (func(), error) { return a.TakeRoom(ctx, w, largeFactor*bytes) }
		err = x.FollowIn(ctx, after, room, func(e engine.Event) error {
			if err := a.sendEvent(w, f, x, e); err != nil || e.ID < until {
				return err
			}
			return errFollowed
		})
		if errors.Is(err, errFollowed) {
			err = f.flush()
		}
	}
	switch {
	case f.broken() != nil:
		a.LostClient()
	case err == nil || ctx.Err() != nil:
	default: // the sandbox has ended, and its logs with it
		_ = f.event(0, api.EventProblem, api.ProblemEvent{Problem: a.Problem(w, err)})
	}
	return nil
}

// sendEvent sends one event of a log.
func (a *apiV1) sendEvent(w *httpd.Response, f *feed, x *engine.Execution, e engine.Event) error {
	at := answer.Millis(e.Time)
	switch {
	case e.Shown != nil:
		return f.event(e.ID, api.EventResult, api.ResultEvent{TimeMS: at, Result: answer.NewShown([]sandbox.Shown{*e.Shown})[0]})
	case e.Exception != nil:
		return f.event(e.ID, api.EventError, api.ErrorEvent{TimeMS: at, Exception: *e.Exception})
	case e.Step != nil:
		return f.event(e.ID, api.EventProgress, api.Progress{TimeMS: at, Text: *e.Step})
	case e.Ended == nil:
		return f.piece(at, e)
	case e.Ended.Failure != "":
		_, err := x.Wait(context.Background()) // it has ended, or is about to
		if err == nil {
			err = &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the run failed under an earlier server"}
		}
		return f.event(e.ID, api.EventProblem, api.ProblemEvent{TimeMS: at, Problem: a.Problem(w, err)})
	}
	n := e.Ended
	return f.event(e.ID, api.EventDone, api.Done{TimeMS: at, Outcome: answer.NewOutcome(answer.HTTP, &sandbox.Result{ID: x.ID(), Status: n.Status,
		ExitCode: n.ExitCode, Signal: n.Signal, Exception: n.Exception, Usage: n.Usage, Timings: n.Timings, Hints: n.Hints,
		Packages: n.Packages, Findings: n.Findings})})
}

// feed writes server-sent events whose ids are those of a log. Its methods are safe for concurrent use.
type feed struct {
	mu    sync.Mutex // guards all below, and writing
	out   *httpd.Response
	buf   bytes.Buffer // what is to be sent, or may wait for more
	err   error        // of the first write that failed; nothing is written after it
	timer *time.Timer
	ended bool
}

func newFeed(w *httpd.Response) *feed {
	f := &feed{out: w}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(heartbeat, f.beat)
	return f
}

// event sends one event; an id of 0 is none.
func (f *feed) event(id uint64, name string, data any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id > 0 {
		f.buf.WriteString("id: " + strconv.FormatUint(id, 10) + "\n")
	}
	f.buf.WriteString("event: " + name + "\ndata: ")
	answer.Encode(&f.buf, data) // ends in the one newline that it holds
	f.buf.WriteByte('\n')
	return f.send()
}

// piece sends an event of output, at the latest with the first one that no other follows at once.
func (f *feed) piece(timeMS float64, e engine.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf.Grow(len(e.Data) + len(e.Data)/8 + pieceHead)
	b := f.buf.AvailableBuffer()
	b = strconv.AppendUint(append(b, "id: "...), e.ID, 10)
	b = append(append(b, "\nevent: "...), e.Kind.String()...)
	b = appendPiece(append(b, "\ndata: "...), timeMS, e.Offset, e.Data, e.Dropped)
	f.buf.Write(append(b, "\n\n"...))
	if e.More && f.buf.Len() < feedMost {
		return f.err
	}
	return f.send()
}

const (
	feedMost  = 256 << 10 // bytes that wait to be sent together with what follows
	pieceHead = 256       // bytes of an event of output beside the output, or a little more
)

// flush sends what waits, and the headers.
func (f *feed) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.send()
}

// beat keeps a silent stream alive. The timer calls it.
func (f *feed) beat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.err != nil {
		return
	}
	f.buf.WriteString(": still running\n\n")
	_ = f.send() // kept in err
	f.timer.Reset(heartbeat)
}

// send writes buf out. Callers hold mu.
func (f *feed) send() error {
	if f.err == nil {
		_, f.err = f.out.Write(f.buf.Bytes())
	}
	if f.err == nil {
		f.err = f.out.FlushError()
	}
	if f.buf.Reset(); f.buf.Cap() > 2*feedMost {
		f.buf = bytes.Buffer{} // a large value has been sent
	}
	return f.err
}

func (f *feed) broken() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// close stops the timer.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.timer.Stop()
}
