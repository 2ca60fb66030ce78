package httpapi

import (
	"context"
	"errors"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of what is read of a log for the text that a model should see.
const (
	textOutput = 256 << 10 // bytes of the start of a stream, and of its end
	textValue  = 16 << 10  // of a value, and of each text of an exception
	textValues = 100
	textHeld   = 8 << 20 // of all that is held meanwhile
	textEvent  = 4       // times that a large event is in memory: as it was logged, decoded, and as text
)

// textOf returns what a model should see of a run so far, from its log.
func (a *apiV1) textOf(ctx context.Context, w *httpd.Response, x *engine.Run) (string, error) {
	release, err := a.TakeRoom(ctx, w, textHeld)
	if err != nil {
		return "", err
	}
	defer release()
	info := x.Info()
	r := &sandbox.Result{Status: info.Status, ExitCode: info.ExitCode}
	last := x.LastEvent()
	if last == 0 {
		return answer.NewAccount(wording.HTTP, r).String(), nil
	}
	err = x.FollowIn(ctx, 0, a.RoomForEvents(w, textEvent), func(e engine.Event) error {
		w.Work(len(e.Data))
		takeEvent(r, e)
		if e.ID >= last {
			return errFollowed
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFollowed) {
		return "", err
	}
	cutTail(&r.Stdout)
	cutTail(&r.Stderr)
	return answer.NewAccount(wording.HTTP, r).String(), nil
}

// takeEvent adds an event of a log to a result.
func takeEvent(r *sandbox.Result, e engine.Event) {
	switch {
	case e.Result != nil:
		if len(r.Results) < textValues {
			r.Results = append(r.Results, small(*e.Result))
		}
	case e.Exception != nil:
		r.Exception = &sandbox.Exception{Name: answer.Cut(e.Exception.Name, textValue),
			Value: answer.Cut(e.Exception.Value, textValue), Traceback: answer.Cut(e.Exception.Traceback, textValue)}
	case e.Step != nil:
	case e.Ended != nil && e.Ended.Failure != "": // the status of the run says so
	case e.Ended != nil:
		r.Status, r.ExitCode, r.Signal, r.Hints = e.Ended.Status, e.Ended.ExitCode, e.Ended.Signal, e.Ended.Hints
	case e.Kind.String() == sandbox.Stderr.String():
		takeOutput(&r.Stderr, e)
	default:
		takeOutput(&r.Stdout, e)
	}
}

// takeOutput keeps the start and the end of a stream.
func takeOutput(c *sandbox.Captured, e engine.Event) {
	c.Dropped += e.Dropped
	data := e.Data
	if n := min(len(data), textOutput-len(c.Head)); c.Dropped == 0 && n > 0 {
		c.Head = append(c.Head, data[:n]...)
		data = data[n:]
	}
	if c.Tail = append(c.Tail, data...); len(c.Tail) > 2*textOutput { // so each byte moves once, also of small events
		cutTail(c)
	}
}

// cutTail keeps only the end of a stream, unless all of it fits.
func cutTail(c *sandbox.Captured) {
	if over := len(c.Tail) - textOutput; over > 0 && (c.Dropped > 0 || over > textOutput) {
		c.Dropped += int64(over)
		c.Tail = append(c.Tail[:0], c.Tail[over:]...)
	}
}

// small is a value with the one form that the text shows, shortened: code chooses the number of forms.
func small(v sandbox.Value) sandbox.Value {
	text, picture := answer.ModelValue(v)
	form := sandbox.Form{Type: "text/plain", Data: []byte(answer.Cut(text, textValue))}
	if picture {
		form = sandbox.Form{Type: "image/png"} // any picture
	}
	return sandbox.Value{Main: v.Main, Forms: []sandbox.Form{form}}
}
