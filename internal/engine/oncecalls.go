package engine

import (
	"context"
	"sync"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// performOnce performs a run in a fresh sandbox. Code that can call tools runs in a context.
func (e *Engine) performOnce(ctx context.Context, x *Run) (*sandbox.Result, error) {
	if x.calls == nil {
		return x.perform(ctx)
	}
	s := x.sandbox
	x.context = s.newContext(sandbox.DefaultContext, *x.Language, sandbox.Workspace)
	x.context.env = x.Env
	e.living.callers.add(x)
	defer e.living.callers.remove(x)
	result, err := x.perform(ctx)
	s.endLife(&endedError{reasonClosed})
	s.work.Wait() // nothing writes to x any more
	if err == nil {
		if result.Results = x.results; x.exception != nil {
			result.Exception = x.exception
		}
	}
	return result, err
}

// callers are the runs in fresh sandboxes that call tools, by id. Its methods are safe for concurrent use.
type callers struct {
	mu   sync.Mutex
	runs map[sandbox.ID]*Run
}

func (c *callers) add(x *Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[sandbox.ID]*Run{}
	}
	c.runs[x.id] = x
}

func (c *callers) remove(x *Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runs, x.id)
}

func (c *callers) find(id sandbox.ID, owner string) *Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.runs[id]; x != nil && x.sandbox.owner == owner {
		return x
	}
	return nil
}

// CallingRun finds the owner's run in a fresh sandbox whose code can call tools. It returns NotFound if
// no such run exists, or it has ended.
func (e *Engine) CallingRun(id sandbox.ID, owner string) (*Run, error) {
	if x := e.living.callers.find(id, owner); x != nil {
		return x, nil
	}
	return nil, &sandbox.Error{Kind: sandbox.NotFound, Op: "run " + printableName(string(id)),
		Msg: "no run with tools has this id: unknown, or ended"}
}
