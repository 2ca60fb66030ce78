package fumehood

import (
	"context"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Context is an interpreter in a living sandbox that keeps its variables between runs. Runs wait for each other. When
// the interpreter ends, its variables are lost, and the next run starts a new one.
type Context struct{ context *engine.Context }

// Restart ends the interpreter and the code that runs in it, and starts a new one.
func (c *Context) Restart(ctx context.Context) error { return c.context.Restart(ctx) }

// Interrupt stops the code that runs, as Control-C does. The context keeps its variables.
func (c *Context) Interrupt(ctx context.Context) error { return c.context.Interrupt(ctx) }

// Complete returns the names that fit at the cursor, an offset in bytes of code. Each name replaces the code from start
// to the cursor.
func (c *Context) Complete(ctx context.Context, code string, cursor int) (start int, names []string, err error) {
	return c.context.Complete(ctx, code, cursor)
}

// Delete ends the interpreter and removes the context.
func (c *Context) Delete(ctx context.Context) error { return c.context.Delete(ctx) }

// Info describes the context now.
func (c *Context) Info() ContextInfo { return contextInfo(c.context.Info()) }

// ContextInfo describes a context.
type ContextInfo struct {
	ID       sandbox.ID // of the interpreter; a restart changes it; "" before the first
	Name     string
	Language string
	Dir      string // working directory
	State    string // "new", "idle" or "busy"; "ended" if the next run starts a new interpreter
	Waiting  int    // runs that wait
	Runs     uint64 // runs so far
	Created  time.Time
}

func contextInfo(i engine.ContextInfo) ContextInfo {
	return ContextInfo{ID: i.ID, Name: i.Name, Language: i.Language, Dir: i.Dir, State: i.State, Waiting: i.Waiting,
		Runs: i.Runs, Created: i.Created}
}
