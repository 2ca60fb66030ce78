package engine

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Event is one thing that happened in a run in a living sandbox.
type Event struct {
	ID   uint64 // 1, 2, 3 ...
	Time time.Duration
	Kind eventlog.Kind

	Data   []byte // of Stdout and Stderr; valid until the receiver returns
	Offset int64  // of Stdout and Stderr: of Data's first byte in what the run wrote to the stream
	// of Stdout and Stderr: bytes over the output limit that lie between the event before and Data
	Dropped   int64
	Step      *string            // of Progress: what is done before the run begins; "" is its end
	Result    *sandbox.Value     // of eventlog.Result
	Exception *sandbox.Exception // of eventlog.Exception
	Ended     *Ended             // of Done
	Call      *sandbox.Call      // of eventlog.Call
	Answered  *Answered          // of eventlog.Answered
	More      bool               // the next event is available, so this one need not be flushed
}

// Answered is an answer to a call of a tool.
type Answered struct {
	ID    uint64 // of the call
	Name  string // of the tool, as the code wrote it
	Error string // not empty: the call failed, or was refused
}

// Ended is the end of a run: its result without output and files, or why it has no result.
type Ended struct {
	Status    sandbox.Status     `json:"status,omitempty"`
	ExitCode  int                `json:"exit_code"`
	Signal    int                `json:"signal,omitempty"`
	Exception *sandbox.Exception `json:"exception,omitempty"`
	Usage     sandbox.Usage      `json:"usage"`
	Timings   sandbox.Timings    `json:"timings"`
	Hints     []sandbox.Hint     `json:"-"`
	Packages  []sandbox.Package  `json:"packages,omitempty"`
	Findings  []sandbox.Finding  `json:"findings,omitempty"`
	// Background is that of sandbox.Result.
	Background sandbox.Captured `json:"background,omitzero"`
	Failure    string           `json:"failure,omitempty"` // Fumehood failed; there is no status

	pid int32 // of its process
}

// endRecord is an end in the log.
type endRecord struct {
	Ended
	Hints []api.Hint `json:"hints,omitempty"`
	PID   int32      `json:"pid,omitempty"`
}

// maxKeptException limits the text of an exception in the done event; the event of the exception has all of it. JSON
// makes a byte of the code's choice up to six bytes, and three texts must fit into eventlog.MaxDone, or the log would
// never end.
const maxKeptException = 8 << 10

func encodeResult(r *sandbox.Result, pid int32) []byte {
	e := endRecord{PID: pid, Ended: Ended{Status: r.Status, ExitCode: r.ExitCode, Signal: r.Signal, Usage: r.Usage,
		Timings: r.Timings, Background: r.Background}}
	for _, h := range r.Hints {
		e.Hints = append(e.Hints, api.NewHint(h, ""))
	}
	if x := r.Exception; x != nil {
		e.Exception = shortException(x, maxKeptException)
	}
	e.Packages, e.Findings = r.Packages, r.Findings
	text := encode(e)
	if len(text) > eventlog.MaxDone { // keep names and versions only
		e.Packages = make([]sandbox.Package, 0, len(r.Packages))
		for _, p := range r.Packages {
			e.Packages = append(e.Packages, sandbox.Package{Name: p.Name, Version: p.Version})
		}
		text = encode(e)
	}
	if len(text) > eventlog.MaxDone {
		e.Packages, e.Findings, e.Background = nil, nil, sandbox.Captured{Dropped: r.Background.Dropped}
		text = encode(e)
	}
	return text
}

func shortException(x *sandbox.Exception, most int) *sandbox.Exception {
	text := func(s string) string { return strings.Clone(head(s, most)) }
	return &sandbox.Exception{Name: text(x.Name), Value: text(x.Value), Traceback: text(x.Traceback)}
}

func encodeFailure(err error) []byte {
	return encode(Ended{ExitCode: -1, Failure: head(err.Error(), maxKeptException)})
}

// encode returns JSON. These values always have one.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// begun is the event that code in a context begins, or a process that waited for packages. Clients do not see it.
type begun struct {
	Interpreter sandbox.ID   `json:"interpreter"` // "" of a process
	Base        guest.Attach `json:"base"`
	Runs        uint64       `json:"runs,omitempty"` // of the context, this one included
	// Where its request is in the stdin of the interpreter: offset and bytes.
	Request uint64 `json:"request,omitempty"`
	Size    uint64 `json:"size,omitempty"`
}

func (x *Run) logBegan(b begun) {
	if x.log.Log == nil {
		return
	}
	x.log.began.Store(x.log.Last().ID + 1) // before there is a later event
	b.Base, b.Runs = x.base, x.runs
	x.logValue(eventlog.Began, 0, encode(b))
}

// largeValue is the least size of a value that goes to the disk at once, so that memory does not hold it.
const largeValue = 64 << 10

// logValue logs a value that was reported up to an offset of the channel.
func (x *Run) logValue(kind eventlog.Kind, end uint64, data []byte) {
	_, err := x.log.Append(kind, end, data)
	if err == nil && len(data) > largeValue {
		err = x.log.Sync()
	}
	if err != nil {
		x.cannotLog("a value", err)
	}
}

// Follow hands each event with an id above after to take, in order and once, and waits for new ones until ctx ends. It
// returns nil after the last event, Done. An id that is past the end is Invalid.
func (x *Run) Follow(ctx context.Context, after uint64, take func(Event) error) error {
	return x.FollowIn(ctx, after, nil, take)
}

// FollowIn is Follow with a room for large events, which counts them as they are in the log; nil is endless.
func (x *Run) FollowIn(ctx context.Context, after uint64, room eventlog.Room, take func(Event) error) error {
	if last := x.LastEvent(); after > last {
		return sandbox.Invalidf("after", "there is no event %d; the last is %d", after, last)
	}
	hidden := x.hidden(after)
	return x.log.FollowIn(ctx, after+hidden, room, func(e eventlog.Event) error {
		if e.Kind == eventlog.Began {
			hidden++
			return nil
		}
		out := Event{ID: e.ID - hidden, Time: e.Time, Kind: e.Kind, Data: e.Data, More: e.More}
		if e.Kind == eventlog.Stdout || e.Kind == eventlog.Stderr {
			base := [...]uint64{x.base.Stdout, x.base.Stderr}[e.Kind-eventlog.Stdout] // known since it began
			out.Offset = int64(e.Offset - uint64(len(e.Data)) - base)
			out.Dropped = min(int64(e.Gap), out.Offset) // what lies before the base is not of this run
		}
		if err := out.decode(); err != nil {
			return err
		}
		return take(out)
	})
}

// Failure returns why a run whose last event has a Failure has no result, once it has ended.
func (x *Run) Failure() error {
	<-x.done
	if x.failure == nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the run failed under an earlier server"}
	}
	return x.failure
}

// LastEvent returns the id of the last event so far.
func (x *Run) LastEvent() uint64 {
	last := x.log.Last().ID
	return last - x.hidden(last)
}

// hidden is how many of the events up to one clients do not see.
func (x *Run) hidden(last uint64) uint64 {
	if began := x.log.began.Load(); began > 0 && began <= last {
		return 1
	}
	return 0
}

// decode parses the data of an event, which an engine wrote.
func (e *Event) decode() error {
	var into any
	switch e.Kind {
	case eventlog.Progress:
		step := string(e.Data)
		e.Step, e.Data = &step, nil
		return nil
	case eventlog.Call, eventlog.Answered:
		return e.decodeCall()
	case eventlog.Result:
		e.Result = &sandbox.Value{}
		into = e.Result
	case eventlog.Exception:
		e.Exception = &sandbox.Exception{}
		into = e.Exception
	case eventlog.Done:
		record := &endRecord{}
		e.Ended, into = &record.Ended, record
		defer func() { record.Ended.Hints, record.Ended.pid = api.TypedHints(record.Hints), record.PID }()
	default:
		return nil
	}
	if err := json.Unmarshal(e.Data, into); err != nil {
		return &sandbox.Error{Op: "read an event", Err: err}
	}
	e.Data = nil
	return nil
}
