package mcp

import (
	"cmp"
	"encoding/json"
	"math"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ran is the structured result of code or a command.
type ran struct {
	Status    sandbox.Status     `json:"status"`
	ExitCode  *int               `json:"exit_code"`
	Stdout    string             `json:"stdout"`
	Stderr    string             `json:"stderr"`
	Results   []api.Result       `json:"results"`
	Exception *sandbox.Exception `json:"exception"`
	Hint      *string            `json:"hint"`

	Background string `json:"background,omitempty"`
}

var ranSchema = giving(object{
	"status": object{"type": "string", "description": "How it ended.", "enum": []sandbox.Status{
		sandbox.StatusSucceeded, sandbox.StatusFailed, sandbox.StatusTimeout, sandbox.StatusOutOfMemory,
		sandbox.StatusOutputLimit, sandbox.StatusKilled, sandbox.StatusCanceled, sandbox.StatusRejected,
		sandbox.StatusLost}},
	"exit_code": may(field("integer", "Exit code, or null without one.")),
	"stdout":    field("string", "Standard output. The middle of long output is omitted."),
	"stderr":    field("string", "Standard error. The middle of long output is omitted."),
	"results": object{"type": "array", "description": "Values that the code showed, except pictures.",
		"items": giving(object{
			"main": field("boolean", "Whether it is the value of the last expression."),
			"data": object{"type": "object", "additionalProperties": object{"type": "string"},
				"description": "The value by media type."},
		}, "main", "data")},
	"exception": may(giving(object{
		"name":      field("string", "Type of the exception."),
		"value":     field("string", "Its message."),
		"traceback": field("string", "Where it was raised, unless stderr has it."),
	}, "name", "value")),
	"hint":       may(field("string", "What happened and what would help.")),
	"background": field("string", "What code of earlier runs wrote meanwhile."),
}, "status", "exit_code", "stdout", "stderr", "results", "exception", "hint")

func runCode(c *call, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	var in struct {
		Code     *string  `json:"code"`
		Language string   `json:"language"`
		Packages []string `json:"packages"`
		Timeout  float64  `json:"timeout_s"`
	}
	if err := decode(arguments, &in); err != nil {
		return nil, err
	}
	if in.Code == nil {
		return nil, sandbox.Invalidf("code", "is missing")
	}
	return c.run(sandbox.Request{Language: cmp.Or(in.Language, "python"), Code: []byte(*in.Code),
		Packages: sandbox.PackagesOf(in.Packages, false, "")}, in.Timeout)
}

func runCommand(c *call, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	var in struct {
		Command string   `json:"command"`
		Argv    []string `json:"argv"`
		Stdin   string   `json:"stdin"`
		Timeout float64  `json:"timeout_s"`
	}
	if err := decode(arguments, &in); err != nil {
		return nil, err
	}
	if (in.Command == "") == (len(in.Argv) == 0) {
		return nil, sandbox.Invalidf("command",
			"give either a shell line in command, or a program and its arguments in argv")
	}
	argv := in.Argv
	if in.Command != "" {
		argv = []string{"sh", "-c", in.Command}
	}
	return c.run(sandbox.Request{Command: argv, Stdin: []byte(in.Stdin)}, in.Timeout)
}

// run executes a request in the session's sandbox. The client's cancellation interrupts it; the context keeps its
// state.
func (c *call) run(r sandbox.Request, timeout float64) (*sdk.CallToolResult, error) {
	if timeout < 0 || timeout > math.MaxInt32 {
		return nil, sandbox.Invalidf("timeout_s", "%g is out of range", timeout)
	}
	r.Timeout = time.Duration(timeout * float64(time.Second))
	box, why, err := c.sandbox()
	if err != nil {
		return nil, err
	}
	p := c.progress()
	defer p.close()
	r.Output, r.Progress = p.take, p.step
	var out *sdk.CallToolResult
	_, err = box.Run(c.ctx, engine.RunRequest{Request: r, Deliver: func(result *sandbox.Result) error {
		made := c.report(box, why, result)
		// they are in the report
		result.Stdout, result.Stderr, result.Results = sandbox.Captured{}, sandbox.Captured{}, nil
		text, err := json.Marshal(made)
		if err == nil {
			err = c.reserve(resultCopies * int64(len(text)))
		}
		if err != nil {
			return &sandbox.Error{Kind: sandbox.KindOf(err), Msg: "the run ended, but its result was dropped", Err: err}
		}
		out = made
		return nil
	}})
	return out, err
}

// resultCopies is how often a result is in memory while the client reads: as values, as JSON and as an event.
const resultCopies = 3

// freeResult is how much of a result needs no room. Connections are limited too.
const freeResult = 64 << 10

// reserve takes room for a result of so many bytes until the call is answered.
func (c *call) reserve(n int64) error {
	reserve := c.session.server.config.reserve
	if reserve == nil || n <= freeResult {
		return nil
	}
	return reserve(c.ctx, c.request.Extra.Header, n-freeResult)
}
