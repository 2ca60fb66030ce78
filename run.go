package fumehood

import (
	"context"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// OneShot is one run in a fresh sandbox.
type OneShot struct {
	Backend string          // "" is the default, "auto" the strongest that works here
	Spec    sandbox.Spec    // the sandbox; zero fields get the defaults
	Request sandbox.Request // what runs in it
}

// Request is one run in a living sandbox: code in a context, or a command in a separate process.
type Request struct {
	sandbox.Request
	Context string // of code; "" is the default context of the language, made by its first run

	Background  bool // the run continues when the context of its caller ends, without a time limit unless it has one
	Interactive bool // keeps the standard input of a command open for Run.Input
}

func (r Request) engineRequest() engine.RunRequest {
	request := engine.RunRequest{Context: r.Context, Request: r.Request, Interactive: r.Interactive}
	if r.Background {
		request.Detach()
	}
	return request
}

// Run is a run in a living sandbox. Its methods are safe for concurrent use.
type Run struct{ run *engine.Run }

// ID returns the run's id, by which Sandbox.FindRun finds it.
func (r *Run) ID() sandbox.ID { return r.run.ID() }

// Wait waits for the end of the run and returns its result. The end of ctx ends the wait, not the run.
func (r *Run) Wait(ctx context.Context) (*sandbox.Result, error) { return r.run.Wait(ctx) }

// Done returns a channel that is closed when the run has ended.
func (r *Run) Done() <-chan struct{} { return r.run.Done() }

// Follow passes each event with an id above after to take, in order and once, and waits for new ones until ctx ends.
// It returns nil after the last event, EventDone or EventProblem. It is Invalid if after is above the last id.
func (r *Run) Follow(ctx context.Context, after uint64, take func(Event) error) error {
	return r.run.Follow(ctx, after, func(e engine.Event) error { return take(event(e)) })
}

// Input writes to the standard input of an interactive run; end closes it.
func (r *Run) Input(ctx context.Context, data []byte, end bool) error {
	return r.run.Input(ctx, data, end)
}

// Signal sends a signal to the processes of the run. Code in a context accepts SIGINT, which keeps the variables.
func (r *Run) Signal(ctx context.Context, signal syscall.Signal) error {
	return r.run.Signal(ctx, signal)
}

// Answer answers a call of a tool that has no function. It is NotFound once the run has ended, and Exists if the call
// has its answer.
func (r *Run) Answer(ctx context.Context, call uint64, a sandbox.CallAnswer) error {
	return r.run.Answer(ctx, call, a)
}

// Cancel ends the run with sandbox.StatusCanceled.
func (r *Run) Cancel() { r.run.Cancel() }

// Info describes the run now.
func (r *Run) Info() RunInfo { return runInfo(r.run.Info()) }

// RunInfo describes a run in a living sandbox.
type RunInfo struct {
	ID         sandbox.ID
	Context    string   // "" for a command
	Language   string   // "" for a command
	Command    []string // after the end only its first 4 KiB
	Began      time.Time
	Deadline   time.Time // zero: no time limit
	Background bool
	Status     sandbox.Status // running, or how it ended
	ExitCode   int            // -1 without an exit code
}

func runInfo(i engine.RunInfo) RunInfo {
	return RunInfo{ID: i.ID, Context: i.Context, Language: i.Language, Command: i.Command, Began: i.Began,
		Deadline: i.Deadline, Background: i.Background, Status: i.Status, ExitCode: i.ExitCode}
}
