package eventlog

import "time"

// Kind is the kind of an event. The numbers are in files: they never change.
type Kind uint8

// The kinds of events.
const (
	Stdout    Kind = 1
	Stderr    Kind = 2
	Result    Kind = 3 // a result
	Exception Kind = 4 // an uncaught exception
	Done      Kind = 5 // the end of the run; always the last event
	Began     Kind = 6 // what waited began; the caller's encoding

	Progress Kind = 7 // what is done before the run begins: a line of text

	Call     Kind = 8 // a call of a tool
	Answered Kind = 9 // the answer to one
)

var kindNames = [...]string{Stdout: "stdout", Stderr: "stderr", Result: "result", Exception: "exception", Done: "done",
	Began: "began", Progress: "progress", Call: "call", Answered: "answered"}

func (k Kind) String() string {
	if k.known() {
		return kindNames[k]
	}
	return "unknown"
}

func (k Kind) known() bool { return k >= Stdout && k <= Answered }

func (k Kind) isOutput() bool { return k == Stdout || k == Stderr }

// Event is one thing that happened in a run.
type Event struct {
	ID   uint64        // 1, 2, 3 ...
	Time time.Duration // since the run began
	Kind Kind

	Offset uint64 // of output: the position in the process's stream of the byte after Data

	Data []byte // of output: its bytes, none if there is only a gap to show; otherwise the caller's encoding

	// Set by Follow:
	Gap  uint64 // of output: bytes of the stream between the event before and Data that were not stored
	More bool   // the next event is available
}

// Bounds limits one log. The zero value is DefaultBounds.
type Bounds struct {
	Bytes   int64 // of the file
	Reserve int64 // of Bytes, for results and exceptions; output beyond the rest is counted, not stored
}

// DefaultBounds apply where none are given.
var DefaultBounds = Bounds{Bytes: 64 << 20, Reserve: 16 << 20}

// The bounds of the parts of a log, in bytes.
const (
	MaxHead = 1 << 20
	MaxData = 16 << 20  // of one event
	MaxDone = 256 << 10 // of the done event; each log keeps room for it
	memory  = 64 << 10  // that Append fills before it syncs by itself
	kept    = 4 << 10   // that a finished log keeps in memory for followers
	piece   = 64 << 10  // that is read from a file at a time
)

// doneRoom is what is kept free for Finish: the done event, and for each stream an event that shows a gap.
const doneRoom = MaxDone + 3*recordHead
