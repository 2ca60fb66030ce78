package toolcall

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/google/jsonschema-go/jsonschema"
)

// Limits of the tools of one run.
const (
	maxTools       = 64
	maxDescription = 8 << 10 // bytes
	maxSchema      = 32 << 10
	maxAll         = 512 << 10
	maxError       = 8 << 10 // bytes of the text of an error
)

// Set is the tools of one run. It compiles a schema when its tool is called, and keeps small ones: a compiled one takes
// some thirty times the bytes of its text, and many runs may wait. Its methods are safe for concurrent use.
type Set struct {
	Limits sandbox.CallLimits // complete

	mu       sync.Mutex // guards all below
	tools    []sandbox.Tool
	compiled map[string]*checked // of tools that were called, of at most maxKept bytes together; nil: any object
	kept     int                 // bytes of those
	spent    float64             // work of the checks of arguments
}

// checked is the schema of a tool.
type checked struct {
	*jsonschema.Resolved
	work    *work
	size    int     // bytes in memory, at most
	compile float64 // work of compiling it
}

// stub is a tool as a driver gets it.
type stub struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// names of Python and JavaScript, without those that begin with two underscores.
var names = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[A-Za-z]|_[A-Za-z0-9])[A-Za-z0-9_]{0,62}$|^_$`)
})

// Check checks the tools of a run and completes their limits; nil is none. Errors are Invalid and TooLarge, and name
// the field.
func Check(calls sandbox.Calls) (*Set, error) {
	s, err := Known(calls)
	if s == nil || err != nil {
		return nil, err
	}
	names, parts := map[string]bool{}, 0
	for i, t := range calls.Tools {
		field := fmt.Sprintf("tools[%d]", i)
		if names[t.Name] {
			return nil, sandbox.Invalidf(field+".name", "%s is there twice", t.Name)
		}
		names[t.Name] = true
		one, err := check(field, t)
		if err != nil {
			return nil, err
		}
		if one != nil {
			parts += one.work.parts
		}
		if parts > maxParts {
			return nil, tooLarge("tools", fmt.Sprintf("have schemas of more than %d parts together", maxParts))
		}
	}
	return s, nil
}

// Known is Check for tools that Check has accepted before, perhaps in other sets: it looks only at their number and
// size.
func Known(calls sandbox.Calls) (*Set, error) {
	limits, err := complete(calls.Limits)
	switch {
	case err != nil || len(calls.Tools) == 0:
		return nil, err
	case len(calls.Tools) > maxTools:
		return nil, tooLarge("tools", fmt.Sprintf("has more than %d entries", maxTools))
	case Size(calls.Tools) > maxAll:
		return nil, tooLarge("tools", "together are over the limit of "+sandbox.FormatBytes(maxAll))
	}
	return &Set{Limits: limits, tools: calls.Tools, compiled: map[string]*checked{}}, nil
}

// None returns a set without tools.
func None() *Set {
	limits, _ := complete(sandbox.CallLimits{}) // the defaults
	return &Set{Limits: limits}
}

// Size returns the bytes of tools.
func Size(tools []sandbox.Tool) (size int) {
	for _, t := range tools {
		size += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return size
}

// Stubs returns the list of tools for the driver, as JSON: name, description and schema of each. It is nil without
// tools.
func (s *Set) Stubs() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tools) == 0 {
		return nil
	}
	stubs := make([]stub, len(s.tools))
	for i, t := range s.tools {
		if stubs[i] = (stub{t.Name, t.Description, t.Schema}); t.Schema == nil {
			stubs[i].Schema = json.RawMessage("{}")
		}
	}
	text, err := json.Marshal(stubs)
	if err != nil {
		panic(err) // Check has parsed the schemas
	}
	return text
}

// End frees the tools of a run that has ended. Later calls are refused.
func (s *Set) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.compiled = nil, nil
}

// maxKept limits the bytes of the compiled schemas that a run keeps.
const maxKept = 192 << 10

// Upper bounds of the bytes of a compiled schema, as measured.
const (
	partSize  = 1536 // of a schema within a schema
	valueSize = 72   // of a value, as in an enum
	textSize  = 2    // of a byte of its text
)

// find returns the schema of a tool; nil is any object. Compiling it again is work of the run.
func (s *Set) find(tool string) (*checked, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if schema, called := s.compiled[tool]; called {
		return schema, nil
	}
	i := slices.IndexFunc(s.tools, func(t sandbox.Tool) bool { return t.Name == tool })
	if i < 0 {
		return nil, fmt.Errorf("this run has no tool %.64q", tool)
	}
	if s.spent > maxRunWork {
		return nil, fmt.Errorf("the arguments %w", errWork)
	}
	schema, err := check(tool, s.tools[i])
	if err != nil {
		return nil, err
	}
	if schema == nil {
		s.compiled[tool] = nil
		return nil, nil
	}
	if s.kept+schema.size <= maxKept {
		s.compiled[tool], s.kept = schema, s.kept+schema.size
	} else {
		s.spent += schema.compile
	}
	return schema, nil
}

func complete(l sandbox.CallLimits) (sandbox.CallLimits, error) {
	switch {
	case l.Calls < 0 || l.Calls > sandbox.MaxCalls:
		return l, sandbox.Invalidf("call_limits.calls", "must be 1 to %d", sandbox.MaxCalls)
	case l.Bytes < 0 || l.Bytes > sandbox.MaxCallBytes:
		return l, sandbox.Invalidf("call_limits.bytes", "must be 1 to %d", int64(sandbox.MaxCallBytes))
	case l.Timeout < 0 || l.Timeout > sandbox.MaxCallTimeout:
		return l, sandbox.Invalidf("call_limits.answer_s", "must be more than 0 and at most %g",
			sandbox.MaxCallTimeout.Seconds())
	case l.Wait < 0 || l.Wait > sandbox.MaxCallWait:
		return l, sandbox.Invalidf("call_limits.wait_s", "must be more than 0 and at most %g",
			sandbox.MaxCallWait.Seconds())
	}
	if l.Calls == 0 {
		l.Calls = sandbox.DefaultCalls
	}
	if l.Bytes == 0 {
		l.Bytes = sandbox.DefaultCallBytes
	}
	if l.Timeout == 0 {
		l.Timeout = sandbox.DefaultCallTimeout
	}
	if l.Wait == 0 {
		l.Wait = sandbox.DefaultCallWait
	}
	return l, nil
}

// check checks one tool and returns its schema, ready to validate; nil is any object.
func check(field string, t sandbox.Tool) (*checked, error) {
	switch {
	case !names().MatchString(t.Name):
		return nil, sandbox.Invalidf(field+".name",
			"%.80q is not a name of letters, digits and underscores, of 1 to 64 bytes", t.Name)
	case len(t.Description) > maxDescription:
		return nil, tooLarge(field+".description", "is over the limit of "+sandbox.FormatBytes(maxDescription))
	case t.Schema == nil:
		return nil, nil
	}
	field += ".schema"
	values, err := measure(t.Schema, maxSchema)
	if err != nil {
		return nil, sandbox.Invalidf(field, "its bytes %v", err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(t.Schema, &schema); err != nil {
		return nil, sandbox.Invalidf(field, "is not a JSON Schema: %v", err)
	}
	if schema.Type != "" && schema.Type != "object" {
		return nil, sandbox.Invalidf(field, "its type is %.40q; arguments are an object", schema.Type)
	}
	text, err := json.Marshal(&schema) // as the validator understood it
	if err != nil {
		return nil, sandbox.Invalidf(field, "is not a JSON Schema: %v", err)
	}
	work, err := workOf(text)
	if err != nil {
		return nil, sandbox.Invalidf(field, "%v", err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, sandbox.Invalidf(field, "is not a JSON Schema: %v", err)
	}
	parts, bytes := work.parts, len(t.Schema)
	return &checked{resolved, work, parts*partSize + values*valueSize + bytes*textSize,
		float64(parts*partWork + values*decodedWork + bytes*compileWork)}, nil
}

func tooLarge(what, msg string) error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Op: what, Msg: msg}
}

// Arguments checks the hostile arguments of a call and returns them encoded anew. An error is a text for the code that
// calls. The work of all calls is bounded: beyond it, further arguments are refused unread.
func (s *Set) Arguments(tool string, text []byte) ([]byte, error) {
	schema, err := s.find(tool)
	if err != nil {
		return nil, err
	}
	values, err := measure(text, MaxArguments)
	if err == nil {
		err = s.spend(float64(len(text)*byteWork + values*decodedWork))
	}
	var arguments []byte
	if err == nil {
		arguments, err = canonical(text)
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments %w", err)
	}
	var object map[string]any
	if err := json.Unmarshal(arguments, &object); err != nil || object == nil {
		return nil, fmt.Errorf("the arguments are not an object")
	}
	if schema == nil {
		return arguments, nil
	}
	work, err := schema.work.of(arguments)
	if err == nil {
		err = s.spend(work)
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments %w", err)
	}
	if err := schema.Validate(object); err != nil {
		return nil, fmt.Errorf("the arguments do not fit the schema of the tool: %s", brief(err.Error()))
	}
	return arguments, nil
}

// Answer checks an answer of the caller. Errors are Invalid and TooLarge.
func (s *Set) Answer(a sandbox.CallAnswer) (sandbox.CallAnswer, error) {
	if a.Error != "" {
		a.Value, a.Error = nil, brief(a.Error)
		return a, nil
	}
	if a.Value == nil {
		a.Value = []byte("null")
	}
	if len(a.Value) > MaxAnswer {
		return a, &sandbox.Error{Kind: sandbox.TooLarge, Op: "value", Msg: sandbox.FormatBytes(int64(len(a.Value))) +
			" is over the limit of " + sandbox.FormatBytes(MaxAnswer), Fix: "answer with an error, or write a file"}
	}
	_, err := measure(a.Value, MaxAnswer)
	if err == nil {
		a.Value, err = canonical(a.Value)
	}
	if err != nil {
		return a, sandbox.Invalidf("value", "its bytes %v", err)
	}
	return a, nil
}

// Invoke calls the function of a tool and returns its answer. A panic is an error of the call.
func Invoke(ctx context.Context, tool sandbox.Tool, arguments []byte) (answer sandbox.CallAnswer) {
	defer func() {
		if p := recover(); p != nil {
			answer = sandbox.CallAnswer{Error: brief(fmt.Sprintf("the tool panicked: %v", p))}
		}
	}()
	value, err := tool.Call(ctx, arguments)
	if err == nil {
		answer.Value, err = json.Marshal(value)
	}
	if err == nil && len(answer.Value) > MaxAnswer {
		err = fmt.Errorf("the tool returned %d bytes; an answer has at most %d", len(answer.Value), MaxAnswer)
	}
	if err != nil {
		return sandbox.CallAnswer{Error: cmp.Or(brief(err.Error()), "error")}
	}
	return answer
}

// New returns the tool of a function. Its schema is that of In, a struct with the names of encoding/json.
func New[In any](name, description string, call func(context.Context, In) (any, error)) (sandbox.Tool, error) {
	schema, err := jsonschema.For[In](nil)
	if err == nil && schema.Type != "object" {
		err = fmt.Errorf("%T is not a struct", *new(In))
	}
	if err != nil {
		return sandbox.Tool{}, sandbox.Invalidf("tools", "%s: %v", name, err)
	}
	text, err := json.Marshal(schema)
	return sandbox.Tool{Name: name, Description: description, Schema: text,
		Call: func(ctx context.Context, arguments []byte) (any, error) {
			var in In
			if err := json.Unmarshal(arguments, &in); err != nil {
				return nil, err
			}
			return call(ctx, in)
		}}, err
}

// brief shortens the text of an error, between characters.
func brief(text string) string {
	if len(text) <= maxError {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.ToValidUTF8(text[:maxError], "") + "..."
}
