package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	callTimeout = 5 * time.Second // of an interrupt or a cancellation
	inputChunk  = 64 << 10        // bytes of standard input that are sent at once
)

// follower passes on the output of a run in a living sandbox, and input and interrupts to the run.
type follower struct {
	app     *app
	client  *client.Client
	sandbox string // its name
	request api.SandboxRunRequest
	to      destination

	output  *output
	results results
	at      [3]int64    // end of the last output, by stream
	answer  *api.Answer // of a run that ended

	begun      chan struct{} // closed once id is valid
	id         string
	interrupts chan struct{} // an item for each interrupt from the keyboard
}

func (a *app) newFollower(c *client.Client, sandbox string, request api.SandboxRunRequest, to destination) *follower {
	return &follower{app: a, client: c, sandbox: sandbox, request: request, to: to, results: results{app: a, to: to},
		begun: make(chan struct{}), interrupts: make(chan struct{}, 8)}
}

// run runs the request. The end of ctx cancels the run.
func (x *follower) run(ctx context.Context, passInput bool) error {
	if x.app.json {
		a, err := x.client.Run(ctx, x.sandbox, x.request)
		x.answer = &a
		return err
	}
	err := x.follow(ctx, x.passInterrupts, func(ctx context.Context) error {
		if passInput {
			go x.passInput(ctx) // a read of our standard input may never end; the program exits then
		}
		return x.client.Stream(ctx, x.sandbox, x.request, x.take)
	})
	if ctx.Err() != nil && x.answer == nil {
		x.cancel(ctx)
		err = context.Cause(ctx)
	}
	return readerGone(x.fixCut(err, x.id))
}

// fixCut gives an error of a stream that broke off the command that follows the run again.
func (x *follower) fixCut(err error, run string) error {
	var cut *sandbox.Error
	if run == "" || !errors.Is(err, client.ErrCut) || !errors.As(err, &cut) {
		return err
	}
	own := *cut
	own.Fix = "fumehood logs -f " + x.sandbox + " " + run
	return &own
}

// follow passes on the output that stream delivers to take. passInterrupts receives interrupts from the keyboard while
// stream runs; nil lets them end the command.
func (x *follower) follow(ctx context.Context, passInterrupts func(context.Context),
	stream func(context.Context) error) error {
	x.output = x.app.newOutput()
	x.results.output = x.output
	defer x.output.close()
	if passInterrupts == nil {
		return stream(ctx)
	}
	defer x.app.onInterrupt(func() {
		select {
		case x.interrupts <- struct{}{}:
		default: // enough of them wait
		}
	})()
	var work sync.WaitGroup
	defer work.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work.Go(func() { passInterrupts(ctx) })
	return stream(ctx)
}

// readerGone turns the error of a lost reader into the exit code that head and similar programs expect.
func readerGone(err error) error {
	if errors.Is(err, errReaderGone) {
		return exitError(exitCanceled)
	}
	return err
}

func (x *follower) take(e client.Event) error {
	if e.Started != nil && x.id == "" {
		x.id = string(e.Started.ID)
		close(x.begun)
	}
	switch {
	case e.Failed != nil:
		return e.Failed
	case e.Step != nil:
		x.output.progress(terminal.OneLine(*e.Step))
	case e.Output != nil:
		x.write(e.Output)
	case e.Result != nil:
		x.results.take(e.Result)
	case e.Done != nil:
		x.results.flush()
		x.answer = &api.Answer{Outcome: *e.Done}
	}
	return nil
}

func (x *follower) write(p *client.Output) {
	stream := sandbox.Stdout
	if p.Stderr {
		stream = sandbox.Stderr
	}
	if gap := p.Offset - x.at[stream]; gap > 0 && x.at[stream] > 0 {
		x.output.write(stream, []byte("\n"+answer.Marker(gap)))
	}
	x.at[stream] = p.Offset + int64(len(p.Data))
	x.output.write(stream, p.Data)
}

// passInterrupts interrupts the run at the first Control-C, cancels it at the second and leaves it at the third.
func (x *follower) passInterrupts(ctx context.Context) {
	for seen := 0; ; seen++ {
		select {
		case <-x.interrupts:
		case <-ctx.Done():
			return
		}
		select {
		case <-x.begun:
		case <-ctx.Done():
			return
		default:
			seen = 2 // no run to interrupt yet
		}
		var err error
		switch seen {
		case 0:
			err = x.interruptRun(ctx)
		case 1:
			x.cancel(ctx)
		default:
			x.app.interrupt(errInterrupted)
		}
		if err != nil && ctx.Err() == nil {
			x.app.warn("could not interrupt the run: %s; interrupt again to cancel it", terminal.OneLine(textOf(err)))
		}
	}
}

// interruptRun interrupts code as Control-C does, so that its context keeps its state. A command receives a signal.
func (x *follower) interruptRun(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if x.request.Code == nil {
		return x.client.Signal(ctx, x.sandbox, x.id, "SIGINT")
	}
	s, err := x.client.Sandbox(ctx, x.sandbox)
	if err != nil {
		return err
	}
	name, language := cmp.Or(x.request.Context, sandbox.DefaultContext), x.request.Language
	for _, c := range s.Contexts {
		if (c.Name == name || string(c.ID) == name) && (language == "" || c.Language == language) && c.ID != "" {
			return x.client.Interrupt(ctx, x.sandbox, string(c.ID))
		}
	}
	return x.client.Cancel(ctx, x.sandbox, x.id)
}

// cancel ends the run, also after the end of ctx.
func (x *follower) cancel(ctx context.Context) {
	select {
	case <-x.begun:
	default:
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer stop()
	if err := x.client.Cancel(ctx, x.sandbox, x.id); err != nil {
		x.app.warn("could not cancel the run %s: %s", terminal.VisibleName(x.id), terminal.OneLine(textOf(err)))
	}
}

// passInput sends our standard input to the run as it arrives.
func (x *follower) passInput(ctx context.Context) {
	select {
	case <-x.begun:
	case <-ctx.Done():
		return
	}
	chunk := make([]byte, inputChunk)
	for {
		n, err := 0, io.EOF
		if x.app.Stdin != nil {
			n, err = x.app.Stdin.Read(chunk)
		}
		sent := x.client.Input(ctx, x.sandbox, x.id, chunk[:n], err != nil)
		if sent != nil && ctx.Err() == nil && sandbox.KindOf(sent) != sandbox.NotFound { // not found: the run has ended
			x.app.warn("could not pass standard input on: %s", terminal.OneLine(textOf(sent)))
		}
		if sent != nil || err != nil {
			return
		}
	}
}

// finish saves files and results, reports the end and returns the exit code as an error.
func (x *follower) finish() error {
	answer.SetHints(&x.answer.Outcome, wording.CommandLine, api.TypedHints(x.answer.Hints))
	if x.app.json {
		for i := range x.answer.Results {
			x.results.save(&x.answer.Results[i])
		}
	}
	x.results.report()
	if text := x.answer.Background; text != "" && !x.app.json && !x.app.quiet {
		x.app.note(terminal.Plain, "output of earlier runs of the context:\n%s",
			terminal.Visible(strings.TrimRight(text, "\n")))
	}
	end := &runEnd{result: resultOf(x.answer), checks: x.request.Checks != "", failed: x.results.failed,
		answer: func(skipped []sandbox.Skipped) any {
			x.answer.Skipped = skipped
			return x.answer
		}}
	if x.answer.Hint != nil {
		end.hint = *x.answer.Hint
	}
	if x.output != nil {
		end.err = x.output.err
	}
	return x.app.finish(end, x.to)
}

// resultOf returns the end of a run, and its files, from an answer.
func resultOf(a *api.Answer) *sandbox.Result {
	r := &sandbox.Result{Status: a.Status, ExitCode: -1, Findings: a.Findings,
		Skipped: a.Skipped, SkippedMore: a.More,
		Usage: sandbox.Usage{Wall: -1, CPU: -1, MemoryPeak: -1}}
	if a.ExitCode != nil {
		r.ExitCode = *a.ExitCode
	}
	if a.Signal != nil {
		r.Signal = *a.Signal
	}
	if a.Usage.WallMS != nil {
		r.Usage.Wall = duration(*a.Usage.WallMS)
	}
	if a.Usage.CPUMS != nil {
		r.Usage.CPU = duration(*a.Usage.CPUMS)
	}
	if a.Usage.PeakMemoryBytes != nil {
		r.Usage.MemoryPeak = *a.Usage.PeakMemoryBytes
	}
	if a.Compile != nil {
		r.Compiled = &sandbox.Compiled{}
		r.Compiled.Stdout.Head, r.Compiled.Stderr.Head = []byte(a.Compile.Stdout), []byte(a.Compile.Stderr)
	}
	for _, f := range a.Files {
		file := sandbox.File{Path: f.Path, Data: f.ContentBase64, Mode: parseMode(f.Mode)}
		if f.Content != nil {
			file.Data = []byte(*f.Content)
		}
		r.Files = append(r.Files, file)
	}
	return r
}

// parseMode reads permission bits in octal; anything else is 0644.
func parseMode(text string) uint32 {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 {
		return 0o644
	}
	return uint32(mode)
}
