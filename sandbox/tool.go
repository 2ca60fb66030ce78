package sandbox

import (
	"context"
	"time"
)

// Tool is a function of the caller that code in a sandbox can call. Its arguments and its answer are JSON.
type Tool struct {
	Name        string // a name in Python and JavaScript, of at most 64 bytes
	Description string // for the stub in the sandbox; at most 8 KiB
	Schema      []byte // JSON Schema of the object of arguments; nil is any object. At most 32 KiB
	// Call answers calls: with a value that encoding/json encodes, or an error that the code gets as an exception. Each
	// call has its own goroutine, and ctx ends with the call or the run. The code chooses the arguments, a JSON object:
	// treat them as hostile. If Call is nil, the client that follows the run answers the calls. No record keeps Call.
	Call func(ctx context.Context, arguments []byte) (any, error) `json:"-"`
}

// CallLimits bound the calls of one run. Zero is the default of the same name below; each has a maximum there.
type CallLimits struct {
	Calls   int           // refused ones included
	Bytes   int64         // of all arguments and answers
	Timeout time.Duration // for one answer; then the code gets an error
	// Wait is how long the clock of the run stops for answers in total. After it, waiting counts as time of the run.
	Wait time.Duration
}

// The defaults and the maxima of CallLimits.
const (
	DefaultCalls       = 1000
	DefaultCallBytes   = 16 << 20
	DefaultCallTimeout = time.Minute
	DefaultCallWait    = 10 * time.Minute

	MaxCalls       = 10_000
	MaxCallBytes   = 32 << 20
	MaxCallTimeout = time.Hour
	MaxCallWait    = 24 * time.Hour
)

// Calls are the tools that the code of a run can call. In a fresh sandbox the code then runs as in a context.
type Calls struct {
	Tools  []Tool
	Limits CallLimits
	// Call receives each call, in order; Answered each answer, with the error if it failed. While they block, the
	// program does. Both may be nil. In a living sandbox calls are events too.
	Call     func(Call)               `json:"-"`
	Answered func(c Call, err string) `json:"-"`
}

// Call is one call of a tool.
type Call struct {
	ID        uint64 // 1, 2, 3 ... of the run
	Name      string
	Arguments []byte        // a JSON object, as the schema of the tool wants it
	Timeout   time.Duration // for its answer
}

// CallAnswer is the answer to a call: a JSON value, or an error that the code gets as an exception.
type CallAnswer struct {
	Value []byte // nil is null
	Error string // not empty: the call failed
}
