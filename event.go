package fumehood

import (
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventProgress  EventKind = "progress"  // a step before the run begins, such as an installation
	EventStdout    EventKind = "stdout"    // output
	EventStderr    EventKind = "stderr"    // output
	EventResult    EventKind = "result"    // a value that the code displayed
	EventException EventKind = "exception" // an uncaught exception
	EventCall      EventKind = "call"      // code calls a tool, and waits
	EventAnswered  EventKind = "answered"  // a call has its answer
	EventDone      EventKind = "done"      // how the run ended
	EventProblem   EventKind = "problem"   // why Fumehood failed. It or EventDone is the last event
)

// Event is one entry of a run's log.
type Event struct {
	ID   uint64        // 1, 2, 3 ...
	Time time.Duration // since the run began
	Kind EventKind

	Data      []byte             // of output; valid until the receiver returns
	Offset    int64              // of output: the position of Data in the stream
	Dropped   int64              // of output: bytes over the output limit between the last event and Data
	Progress  string             // the step; "" when all steps are done
	Result    *sandbox.Value     // of EventResult
	Exception *sandbox.Exception // of EventException
	Call      *sandbox.Call      // of EventCall: Run.Answer answers it, unless its tool has a function
	Answered  *Answered          // of EventAnswered
	Done      *Done              // of EventDone
	Failure   string             // of EventProblem
}

// Answered is an answer to a call, or a refusal of it.
type Answered struct {
	ID    uint64 // of the call
	Name  string // of the tool, as the code wrote it
	Error string // why the call failed in the code; "" if it did not
}

// Done is how a run ended: its result without output, values and files.
type Done struct {
	Status    sandbox.Status
	ExitCode  int // -1 without an exit code
	Signal    int // 0 without a signal
	Exception *sandbox.Exception
	Usage     sandbox.Usage
	Timings   sandbox.Timings
	Hints     []sandbox.Hint
	Packages  []sandbox.Package
	Findings  []sandbox.Finding
}

func event(e engine.Event) Event {
	out := Event{ID: e.ID, Time: e.Time, Kind: EventKind(e.Kind.String()), Data: e.Data, Offset: e.Offset,
		Dropped: e.Dropped, Result: e.Result, Exception: e.Exception, Call: e.Call}
	if a := e.Answered; a != nil {
		out.Answered = &Answered{ID: a.ID, Name: a.Name, Error: a.Error}
	}
	if e.Step != nil {
		out.Progress = *e.Step
	}
	switch d := e.Ended; {
	case d == nil:
	case d.Failure != "":
		out.Kind, out.Failure = EventProblem, d.Failure
	default:
		out.Done = &Done{Status: d.Status, ExitCode: d.ExitCode, Signal: d.Signal, Exception: d.Exception,
			Usage: d.Usage, Timings: d.Timings, Hints: d.Hints, Packages: d.Packages, Findings: d.Findings}
	}
	return out
}
