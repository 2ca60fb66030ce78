package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
)

// recall restores calls from the log: those that wait, and the time that the clock stopped.
func (x *Run) recall(e eventlog.Event) {
	if x.calls == nil || x.resumed.last.Finished {
		return
	}
	switch e.Kind {
	case eventlog.Call:
		var r callRecord
		if json.Unmarshal(e.Data, &r) == nil {
			x.calls.recall(r, x.resumed.accepted.Add(e.Time), x.expire)
		}
	case eventlog.Answered:
		var r answerRecord
		if json.Unmarshal(e.Data, &r) == nil {
			x.calls.after = r.Request + uint64(r.frame().Size())
			x.calls.forget(r, x.resumed.accepted.Add(e.Time))
		}
	}
	x.resumed.reported = max(x.resumed.reported, e.Offset)
}

// recall restores a call that was made at a time of the run.
func (c *calls) recall(r callRecord, at time.Time, expire func(uint64)) {
	c.mu.Lock()
	c.count, c.bytes = max(c.count, r.ID), c.bytes+int64(len(r.Arguments))
	c.mu.Unlock()
	c.await(r)
	c.limitWait(r.ID, expire)
	if len(c.pending) == 1 {
		c.clock.recall(true, at)
	}
}

// forget restores the answer to a call.
func (c *calls) forget(r answerRecord, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count, c.bytes = max(c.count, r.ID), c.bytes+int64(len(r.Value)+len(r.Error))
	if p := c.pending[r.ID]; p != nil {
		p.stop()
		if delete(c.pending, r.ID); len(c.pending) == 0 {
			c.clock.recall(false, at)
		}
	}
}

// restOfAnswers returns the bytes of the answers in the log that the interpreter lacks, which got so many bytes of
// stdin.
func (x *Run) restOfAnswers(ctx context.Context, sent uint64) (rest []byte, err error) {
	if x.calls == nil || sent >= x.calls.after {
		return nil, nil
	}
	err = x.eachLogged(ctx, func(e eventlog.Event) {
		var r answerRecord
		if e.Kind == eventlog.Answered && json.Unmarshal(e.Data, &r) == nil {
			frame := r.frame().Append(nil)
			had := max(sent, r.Request) - r.Request
			rest = append(rest, frame[min(had, uint64(len(frame))):]...)
		}
	})
	return rest, err
}
