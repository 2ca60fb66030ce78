package api

import "encoding/json"

// Tool is a function of the client. Code in the sandbox finds a function of this name, whose calls are events.
type Tool struct {
	// Letters, digits and underscores, at most 64. In JavaScript its function returns a promise.
	Name string `json:"name" required:"true" pattern:"." example:"search"`
	// For readers of the code: the documentation of the function. At most 8 KiB.
	Description string `json:"description,omitempty" example:"Searches the web."`
	// JSON Schema (2020-12 or draft-07) of the object of arguments; its properties are the parameters. Arguments that
	// do not fit are refused before the client sees the call. At most 32 KiB. The default is any object.
	Schema json.RawMessage `json:"schema,omitempty" example:"{\"type\": \"object\"}"`
}

// CallLimits bound the calls of tools of one run. A call over a limit fails in the code, with an exception.
type CallLimits struct {
	// Calls of one run, up to 10000. 0 is the default, 1000.
	Calls int   `json:"calls,omitempty" least:"0" example:"100"`
	Bytes int64 `json:"bytes,omitempty" least:"0" example:"65536"` // All arguments and answers; 0 is 16 MiB.
	// Seconds for one answer; then the call fails. 0 is the default, 60. The maximum is 3600.
	AnswerS float64 `json:"answer_s,omitempty" least:"0" example:"30"`
	// Seconds in total for which the time limit of the run stops while calls wait. 0 is the default, 600. The maximum
	// is 86400, and that of the server for time limits, which also lowers the default.
	WaitS float64 `json:"wait_s,omitempty" least:"0" example:"60"`
}

// CallEvent is the data of a call event: code calls a tool, and waits for the answer.
type CallEvent struct {
	TimeMS    float64         `json:"time_ms"`
	Call      uint64          `json:"call"`      // Number of the call in its run.
	Name      string          `json:"name"`      // Name of the tool.
	Arguments json.RawMessage `json:"arguments"` // The object of arguments, which fits the schema of the tool.
	TimeoutS  float64         `json:"timeout_s"` // Seconds for the answer.
}

// AnsweredEvent is the data of an answered event: a call got its answer, or was refused without a call event.
type AnsweredEvent struct {
	TimeMS float64 `json:"time_ms"`
	Call   uint64  `json:"call"`
	Name   string  `json:"name"`            // As the code wrote it.
	Error  string  `json:"error,omitempty"` // Why the call failed in the code; absent if it did not.
}

// CallAnswer is the body of POST /v1/sandboxes/{id}/runs/{run}/calls/{call}.
type CallAnswer struct {
	// Any JSON, which the call returns. At most 8 MiB. The default is null.
	Value json.RawMessage `json:"value,omitempty" example:"[1, 2]"`
	// The call fails with this text, in an exception named ToolError (Python) or an Error (JavaScript).
	Error string `json:"error,omitempty" example:"TypeError: no such page"`
}
