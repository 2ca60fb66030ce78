package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// instructions describe the server to a model.
const instructions = "Fumehood runs code in an isolated sandbox. Variables, and files in /workspace, persist between " +
	"calls. Results contain the output, the value of the last expression, pictures, exceptions and hints."

const codeDescription = "Run code in an isolated Linux sandbox. State persists: variables, imports and functions " +
	"stay for later calls in the same language, and files in /workspace (the working directory) stay for all. The " +
	"value of the last expression is shown without print, and so are matplotlib figures and other pictures. There is " +
	"no input. packages adds packages; so does a line %pip install NAME in Python. Code that runs too long is " +
	"interrupted."

const commandDescription = "Run one command in the sandbox, in a process of its own that starts in /workspace: a " +
	"shell line in command, or a program and its arguments in argv. Files persist between calls; a cd or a variable " +
	"of the shell does not (for those, use run_code with language bash)."

var timeout = object{"type": "number", "exclusiveMinimum": 0,
	"description": "Longest time it may run, in seconds. The default is that of the sandbox, usually 30."}

// maxNamed is how many allowed hosts a description names.
const maxNamed = 10

// reach describes the network of a sandbox.
func reach(n sandbox.NetworkPolicy) string {
	switch {
	case n.Wanted() == sandbox.NetworkFull:
		return " It can reach the internet."
	case n.Wanted() != sandbox.NetworkRestricted:
		return " It has no network."
	}
	hosts := slices.Clone(n.Allow)
	for _, s := range n.Secrets {
		hosts = append(hosts, s.Hosts...)
	}
	more := ""
	if len(hosts) > maxNamed {
		hosts, more = hosts[:maxNamed], " and others"
	}
	return " Its network reaches only " + strings.Join(hosts, ", ") + more + "."
}

// codeInput returns the schema of the arguments of run_code. limit is the one that has the time limit.
func codeInput(limit string, schema object) object {
	return taking(object{
		"code": field("string", "The source code."),
		"language": object{"type": "string", "enum": []string{"python", "javascript", "bash"},
			"default": "python", "description": "Language of the code. Each has variables of its own."},
		"packages": object{"type": "array", "items": object{"type": "string"}, "maxItems": sandbox.MaxRequirements,
			"description": "Packages to add first, such as requests==2.31.0 or lodash@4; auto for what the code " +
				"imports."},
		limit: schema}, "code")
}

// tool is a tool and how it is called. Its arguments are JSON.
type tool struct {
	sdk.Tool
	call func(c *call, arguments json.RawMessage) (*sdk.CallToolResult, error)
}

// tools returns all tools, run_code first. network describes what their sandbox reaches. DestructiveHint is set if it
// can change files of the host.
func tools(spec sandbox.Spec, network string) []tool {
	reaches := spec.Workspace != "" // files of the host that the code may change
	for _, m := range spec.Mounts {
		reaches = reaches || m.Writable
	}
	no, yes := false, true
	changes := func(idempotent bool) *sdk.ToolAnnotations {
		return &sdk.ToolAnnotations{DestructiveHint: &reaches, IdempotentHint: idempotent, OpenWorldHint: &no}
	}
	reads := &sdk.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no}
	path := field("string", "Path of the file, relative to /workspace or absolute.")
	return []tool{
		{sdk.Tool{Name: "run_code", Title: "Run code", Description: codeDescription + network,
			Annotations: changes(false), OutputSchema: ranSchema,
			InputSchema: codeInput("timeout_s", timeout)}, runCode},
		{sdk.Tool{Name: "run_command", Title: "Run a command", Description: commandDescription + network,
			Annotations: changes(false), OutputSchema: ranSchema, InputSchema: taking(object{
				"command": field("string", "A line for /bin/sh."),
				"argv": object{"type": "array", "items": object{"type": "string"},
					"description": "A program and its arguments, run without a shell. Replaces command."},
				"stdin":     field("string", "Its standard input; none if absent."),
				"timeout_s": timeout})}, runCommand},
		{sdk.Tool{Name: "read_file", Title: "Read a file",
			Description: "Read a file of the sandbox: text, a picture, or other bytes as base64. A large file comes " +
				"in parts: read on at the next offset.",
			Annotations: reads, OutputSchema: readSchema, InputSchema: taking(object{
				"path":   path,
				"offset": object{"type": "integer", "minimum": 0, "description": "Byte to start at."},
				"length": object{"type": "integer", "minimum": 1, "maximum": maxRead,
					"description": "Most bytes to read."}}, "path")}, readFile},
		{sdk.Tool{Name: "write_file", Title: "Write a file",
			Description: "Write or replace a file in the sandbox, and create its folders. " +
				"Give either content or content_base64.",
			Annotations: changes(true), OutputSchema: wroteSchema, InputSchema: taking(object{
				"path":           path,
				"content":        field("string", "The content, as text."),
				"content_base64": field("string", "The content, as base64.")}, "path")}, writeFile},
		{sdk.Tool{Name: "list_files", Title: "List files", Description: "List the files of a folder of the sandbox.",
			Annotations: reads, OutputSchema: listSchema, InputSchema: taking(object{
				"path": field("string", "The folder, relative to /workspace or absolute; /workspace if absent."),
				"depth": object{"type": "integer", "minimum": 1, "maximum": maxDepth, "default": 1,
					"description": "How deep to look into folders."}})}, listFiles},
		{sdk.Tool{Name: "reset_sandbox", Title: "Reset the sandbox",
			Description: "End the sandbox, with all that runs in it, its variables and its files, and start a new one.",
			Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
			InputSchema: taking(object{})}, resetSandbox},
	}
}

// call is one call of a tool.
type call struct {
	ctx     context.Context
	session *session
	request *sdk.CallToolRequest
	named   string // the sandbox that the request names, or ""
}

// sandbox returns the sandbox of a call, as session.sandbox.
func (c *call) sandbox() (*engine.Sandbox, string, error) { return c.session.sandbox(c.ctx, c.named) }

// call carries out a call. An error becomes text for the model.
func (s *Server) call(ctx context.Context, t tool, r *sdk.CallToolRequest) *sdk.CallToolResult {
	c := &call{ctx, s.session(r.Session), r, ""}
	arguments, err := r.Params.Arguments, error(nil)
	if s.config.request != nil {
		var x *request
		if x, err = s.config.request(r.Extra.Header); err == nil {
			arguments, c.named = x.arguments, x.named
		}
	}
	var out *sdk.CallToolResult
	if err == nil {
		out, err = t.contained(c, arguments)
	}
	if err == nil {
		return out
	}
	text := answer.Detail(wording.Tool, err)
	if sandbox.KindOf(err) == sandbox.Internal {
		s.config.Log.Error("a tool failed", "tool", t.Name, "err", err)
		if text = wording.Tool.Text(err); s.config.Public {
			text = answer.NewPublicProblem(err, "").Detail
		}
	}
	text = "Fumehood could not do this: " + text + "."
	if fix := wording.Tool.Fix(err); fix != "" {
		text += " To fix it: " + fix
		if !strings.HasSuffix(fix, "?") {
			text += "."
		}
	}
	content := &sdk.TextContent{Text: answer.Cut(text, answer.MaxModelNote)}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{content}}
}

// contained calls the tool, and converts a panic to an error. The SDK calls tools in its goroutines, where a panic ends
// the server.
func (t *tool) contained(c *call, arguments json.RawMessage) (_ *sdk.CallToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.session.server.config.Log.Error("a tool panicked", "tool", t.Name, "panic", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			err = &sandbox.Error{Kind: sandbox.Internal, Op: t.Name, Msg: fmt.Sprint("panic: ", p)}
		}
	}()
	return t.call(c, arguments)
}

// decode decodes arguments. Unknown ones are refused: they were meant to have an effect.
func decode(arguments json.RawMessage, into any) error {
	if len(arguments) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, after := d.Token(); after == io.EOF {
			return nil
		}
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		got, _, _ := strings.Cut(wrong.Value, " ") // a number is quoted behind it
		return sandbox.Invalidf(cmp.Or(wrong.Field, "arguments"), "expected %s, got %s",
			wantedWords[wrong.Type.Kind()], foundWords[got])
	}
	if _, quoted, found := strings.Cut(fmt.Sprint(err), "unknown field "); found {
		return unknownArgument(quoted, reflect.TypeOf(into).Elem())
	}
	return sandbox.Invalidf("arguments", "they do not fit the tool's input schema: %.200s",
		strings.TrimPrefix(fmt.Sprint(err), "json: "))
}

// unknownArgument refuses an argument that the tool does not have.
func unknownArgument(quoted string, arguments reflect.Type) error {
	var known []string
	for i := range arguments.NumField() {
		known = append(known, arguments.Field(i).Tag.Get("json"))
	}
	name, err := strconv.Unquote(quoted)
	e := sandbox.Invalidf("arguments", "%.80s is not an argument of this tool; it has %s", quoted,
		cmp.Or(strings.Join(known, ", "), "none"))
	if near := nearest.Name(name, known); err == nil && near != "" {
		e.Fix = "did you mean " + near + "?"
	}
	return e
}

// The types of fields, and the kinds of JSON that encoding/json reports, in words.
var (
	wantedWords = map[reflect.Kind]string{reflect.String: "a string", reflect.Slice: "a list",
		reflect.Int: "a whole number", reflect.Int64: "a whole number",
		reflect.Float64: "a number", reflect.Struct: "an object"}
	foundWords = map[string]string{"string": "a string", "array": "a list", "number": "a number", "object": "an object",
		"bool": "true or false"}
)

func resetSandbox(c *call, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	if err := decode(arguments, &struct{}{}); err != nil {
		return nil, err
	}
	if err := c.session.reset(c.ctx, c.named); err != nil {
		return nil, err
	}
	text := "The sandbox is new: no variables, no files."
	if c.session.server.config.Living.Spec.Workspace != "" {
		text = "The sandbox is new: no variables. The files in /workspace are the user's own, and are still there."
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
}
