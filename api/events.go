package api

import "github.com/fumehood-dev/fumehood/sandbox"

// Names of the events of a run, in the order of their first occurrence. Done or problem is the last event.
const (
	EventStarted   = "started"
	EventProgress  = "progress"
	EventStdout    = "stdout"
	EventStderr    = "stderr"
	EventResult    = "result"
	EventException = "exception"
	EventCall      = "call"
	EventAnswered  = "answered"
	EventDone      = "done"
	EventProblem   = "problem"

	EventAttempt = "attempt" // of a network log; its data is a NetworkAttempt
)

// Started is the data of a started event: the run is accepted. A request that is refused earlier gets a problem with
// its own HTTP status.
type Started struct {
	TimeMS float64    `json:"time_ms"` // Milliseconds since the run was accepted, on a monotonic clock.
	ID     sandbox.ID `json:"id"`      // Id of the run.
	// Id of the request in the server's log; only in the stream of POST /v1/run.
	RequestID string `json:"request_id,omitempty"`
}

// Progress is the data of a progress event: a step before the program starts.
type Progress struct {
	TimeMS float64 `json:"time_ms"`
	Text   string  `json:"text"` // One line about the packages that are being installed; empty when they are installed.
}

// OutputPiece is the data of a stdout or stderr event: the next bytes of that stream.
//
// The pieces of a stream together are its bytes, except those that were dropped at the output limit: base64 if a piece
// has it, else text as UTF-8. A piece in the log of a living sandbox may end within a character, and has base64 then.
type OutputPiece struct {
	TimeMS  float64 `json:"time_ms"`
	Offset  int64   `json:"offset"`                  // Offset of the piece's first byte in its stream.
	Text    string  `json:"text"`                    // The bytes as text. U+FFFD replaces bytes that are not UTF-8.
	Base64  []byte  `json:"base64,omitempty"`        // The bytes, only if they are not all UTF-8.
	Dropped int64   `json:"dropped_bytes,omitempty"` // Bytes of the stream before this piece that were dropped.
}

// ResultEvent is the data of a result event.
type ResultEvent struct {
	TimeMS float64 `json:"time_ms"`
	Result
}

// ExceptionEvent is the data of an exception event: an uncaught exception.
type ExceptionEvent struct {
	TimeMS float64 `json:"time_ms"`
	sandbox.Exception
}

// Done is the data of the done event: how the run ended. Earlier events have its output and results.
type Done struct {
	TimeMS float64 `json:"time_ms"`
	Outcome
}

// ProblemEvent is the data of a problem event.
type ProblemEvent struct {
	TimeMS float64 `json:"time_ms"`
	Problem
}
