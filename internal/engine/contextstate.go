package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/driver"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of documents of variables.
const (
	MaxState     = 20 << 20 // bytes of one document
	maxStateName = 1000     // names that one export may have
	stateTimeout = 60 * time.Second
)

// DefaultContext returns the default context of a language. Its interpreter starts with its first use.
func (s *Sandbox) DefaultContext(language string) (*Context, error) {
	if err := s.Ended(); err != nil {
		return nil, err
	}
	l, err := s.engine.Language(language)
	if err != nil {
		return nil, err
	}
	return s.contextFor(sandbox.DefaultContext, &l)
}

// Export returns variables of the context as a JSON document, which docs/state.md describes: those of these names, or
// all. The code of the sandbox wrote it: treat it as hostile. Errors are Unsupported for a language without documents,
// and Invalid or TooLarge.
func (c *Context) Export(ctx context.Context, names []string) ([]byte, error) {
	if len(names) > maxStateName {
		return nil, sandbox.Invalidf("name", "is there more than %d times", maxStateName)
	}
	if names == nil {
		names = []string{}
	}
	return c.state(ctx, driver.Export, encode(names))
}

// Import sets the variables of a document that Export returned, and returns the names that it set and those that it
// did not, as JSON. Errors are those of Export.
func (c *Context) Import(ctx context.Context, document []byte) ([]byte, error) {
	if len(document) > MaxState {
		return nil, &sandbox.Error{Kind: sandbox.TooLarge, Op: "document",
			Msg: "it is over the limit of " + sandbox.FormatBytes(MaxState)}
	}
	if !json.Valid(document) || !utf8.Valid(document) {
		return nil, sandbox.Invalidf("document", "is not JSON")
	}
	return c.state(ctx, driver.Import, document)
}

// state asks the driver, and checks that the answer is JSON within the limit.
func (c *Context) state(ctx context.Context, kind driver.Kind, data []byte) ([]byte, error) {
	if c.language.Driver == nil || !c.language.Driver.State {
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: string(kind),
			Msg: "variables of " + c.language.Name + " cannot be carried", Fix: "use python or javascript"}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stateTimeout, &sandbox.Error{Kind: sandbox.Unavailable,
		Op: string(kind), Msg: "the interpreter did not answer in " + stateTimeout.String()})
	defer cancel()
	fields, err := c.ask(ctx, kind, data)
	if err != nil {
		return nil, err
	}
	if len(fields) != 2 || len(fields[1]) > MaxState {
		return nil, &sandbox.Error{Kind: sandbox.TooLarge, Op: string(kind), Msg: "the answer is over the limit of " +
			sandbox.FormatBytes(MaxState), Fix: "name the variables"}
	}
	if string(fields[0]) != "1" {
		return nil, sandbox.Invalidf(string(kind), "the interpreter refused: %.4000s", string(fields[1]))
	}
	if !json.Valid(fields[1]) || !utf8.Valid(fields[1]) {
		return nil, fmt.Errorf("%s: the interpreter's answer is not JSON", kind)
	}
	return fields[1], nil
}
