package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestToolsInTurn: the tools of a request are checked when it is its owner's turn.
func TestToolsInTurn(t *testing.T) {
	e, err := New(Config{Backends: []sandbox.Backend{noBoxes{}}})
	if err != nil {
		t.Fatal(err)
	}
	for range e.checking.long.slots {
		if err := e.checking.long.acquire(t.Context(), "key", func() {}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tools := sandbox.Calls{Tools: []sandbox.Tool{{Name: "f"}}}
	request := sandbox.Request{Language: "python", Code: []byte("1"), Calls: tools}
	s := newSandbox(e, noBoxes{}, sandbox.Record{Owner: "key"})
	_, once := e.Run(ctx, OneShot{Owner: "key", Request: request})
	_, inside := s.plan(ctx, RunRequest{Request: request})
	_, made := s.CreateContext(ctx, ContextRequest{Calls: tools})
	for what, err := range map[string]error{"a run": once, "a run inside": inside, "a context": made} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s did not wait: %v", what, err)
		}
	}
}
