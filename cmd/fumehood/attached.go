package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/apiclient"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	callTimeout = 5 * time.Second // of an interrupt or a cancellation
	inputPiece  = 64 << 10        // bytes of standard input that are sent at once
)

// attached is an execution in a living sandbox whose output this command passes on.
type attached struct {
	app    *app
	client *apiclient.Client
	name   string // of the sandbox
	asks   apiclient.Run
	out    *filesOut // may be nil
	outDir string

	show   *show
	values values
	at     [2]int64    // end of the last piece of stdout and stderr
	answer *api.Answer // once it has ended

	begun     chan struct{} // closed once id is valid
	id        string
	interrupt chan struct{} // an item for each interrupt from the keyboard
	work      sync.WaitGroup
}

func (a *app) newAttached(c *apiclient.Client, name string, asks apiclient.Run, out *filesOut, outDir string) *attached {
	x := &attached{app: a, client: c, name: name, asks: asks, out: out, outDir: outDir,
		begun: make(chan struct{}), interrupt: make(chan struct{}, 8)}
	x.values = values{app: a, out: out, dir: outDir}
	return x
}

// run runs the execution to its end, or until ctx ends, which cancels it.
func (x *attached) run(ctx context.Context, passInput bool) (err error) {
	if x.app.json {
		a, err := x.client.Run(ctx, x.name, x.asks)
		x.answer = &a
		return err
	}
	return x.follow(ctx, passInput, func(ctx context.Context) error { return x.client.Stream(ctx, x.name, x.asks, x.take) })
}

// follow passes on what stream hands to take, and interrupts and input to the execution.
func (x *attached) follow(ctx context.Context, passInput bool, stream func(context.Context) error) error {
	x.show = x.app.newShow()
	x.values.show = x.show
	defer x.app.onInterrupt(x.interrupted)()
	aside, stop := context.WithCancel(ctx)
	x.work.Go(func() { x.passInterrupts(aside) })
	if passInput {
		go x.passInput(aside) // a read of our standard input may never end; we exit then
	}
	err := stream(ctx)
	stop()
	x.work.Wait()
	x.show.end()
	if ctx.Err() != nil && x.answer == nil {
		x.cancel(ctx)
		err = context.Cause(ctx)
	}
	return unread(err)
}

// unread turns the error of a lost reader into the end that head and its like expect.
func unread(err error) error {
	if errors.Is(err, errReaderGone) {
		return exitError(exitCanceled)
	}
	return err
}

// interrupted takes an interrupt from the keyboard.
func (x *attached) interrupted() {
	select {
	case x.interrupt <- struct{}{}:
	default: // enough of them wait
	}
}

// take receives an event of the execution.
func (x *attached) take(e apiclient.Event) error {
	if e.RunID != "" && x.id == "" {
		x.id = e.RunID
		close(x.begun)
	}
	switch {
	case e.Failed != nil:
		return e.Failed
	case e.Step != nil:
		x.show.progress(oneLine(*e.Step))
	case e.Piece != nil:
		x.piece(e.Piece)
	case e.Value != nil:
		x.values.take(e.Value)
	case e.Done != nil:
		x.values.flush()
		x.answer = e.Done
	}
	return nil
}

func (x *attached) piece(p *apiclient.Piece) {
	stream, at := sandbox.Stdout, &x.at[0]
	if p.Stderr {
		stream, at = sandbox.Stderr, &x.at[1]
	}
	if gap := p.Offset - *at; gap > 0 && *at > 0 {
		x.show.output(stream, []byte("\n"+answer.Marker(gap)))
	}
	*at = p.Offset + int64(len(p.Data))
	x.show.output(stream, p.Data)
}

// passInterrupts interrupts the execution at the first Control-C, cancels it at the second and leaves it at the third.
func (x *attached) passInterrupts(ctx context.Context) {
	for seen := 0; ; seen++ {
		select {
		case <-x.interrupt:
		case <-ctx.Done():
			return
		}
		select {
		case <-x.begun:
		case <-ctx.Done():
			return
		default:
			seen = 2 // there is nothing to interrupt
		}
		var err error
		switch seen {
		case 0:
			err = x.interruptOnce(ctx)
		case 1:
			x.cancel(ctx)
		default:
			x.app.interrupt(errInterrupted)
		}
		if err != nil && ctx.Err() == nil {
			x.app.warn("could not interrupt it: %s; interrupt again to cancel it", oneLine(textOf(err)))
		}
	}
}

// interruptOnce interrupts code as Control-C would, so that the state of its context stays; a command gets a signal.
func (x *attached) interruptOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if x.asks.Code == nil {
		return x.client.Signal(ctx, x.name, x.id, "SIGINT")
	}
	s, err := x.client.Sandbox(ctx, x.name)
	if err != nil {
		return err
	}
	wanted := x.asks.Context
	if wanted == "" {
		wanted = sandbox.DefaultContext
	}
	for _, c := range s.Contexts {
		if (c.Name == wanted || c.ID == wanted) && (x.asks.Language == "" || c.Language == x.asks.Language) && c.ID != "" {
			return x.client.Interrupt(ctx, x.name, c.ID)
		}
	}
	return x.client.Cancel(ctx, x.name, x.id)
}

// cancel ends the execution, also after our own end.
func (x *attached) cancel(ctx context.Context) {
	select {
	case <-x.begun:
	default:
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer stop()
	if err := x.client.Cancel(ctx, x.name, x.id); err != nil {
		x.app.warn("could not cancel execution %s: %s", visibleName(x.id), oneLine(textOf(err)))
	}
}

// passInput sends our standard input to the execution as it comes.
func (x *attached) passInput(ctx context.Context) {
	select {
	case <-x.begun:
	case <-ctx.Done():
		return
	}
	piece := make([]byte, inputPiece)
	for {
		n, err := 0, io.EOF
		if x.app.Stdin != nil {
			n, err = x.app.Stdin.Read(piece)
		}
		if sent := x.client.Input(ctx, x.name, x.id, piece[:n], err != nil); sent != nil || err != nil {
			if sent != nil && ctx.Err() == nil && sandbox.KindOf(sent) != sandbox.NotFound { // it has ended
				x.app.warn("could not pass standard input on: %s", oneLine(textOf(sent)))
			}
			return
		}
	}
}

// finish writes the returned files, reports the end and returns the exit code as an error.
func (x *attached) finish(strictFiles bool) error {
	a := x.app
	if a.json {
		for i := range x.answer.Results {
			x.values.save(&x.answer.Results[i])
		}
	}
	x.values.report()
	result := resultOf(x.answer)
	left := a.handOut(result, x.out, x.outDir)
	if a.json {
		x.answer.Skipped = left
		if err := a.printJSON(x.answer); err != nil {
			return err
		}
	}
	if c := x.answer.Compile; c != nil && !a.quiet && !a.json {
		fmt.Fprint(forTerminal(a.Stderr), c.Stdout, c.Stderr) // warnings
	}
	a.reportFindings(x.answer.Findings, x.answer.Status, x.asks.Checks != "")
	if hint := x.answer.Hint; hint != nil && !a.quiet && !a.json {
		a.say(statusColour(result.Status), "hint: %s", oneLine(answer.Reword(*hint)))
	}
	if a.verbose || isTerminal(a.Stderr) {
		a.note(faint, "%s", summary(result))
	}
	if x.show != nil && x.show.err != nil {
		return unread(x.show.err)
	}
	code := exitCodeOf(result)
	if code == 0 && (strictFiles && len(left) > 0 || x.values.failed) {
		code = exitFailure
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

// resultOf is what an answer says of the end of an execution, and its files.
func resultOf(a *api.Answer) *sandbox.Result {
	r := &sandbox.Result{Status: a.Status, ExitCode: -1, Skipped: a.Skipped, SkippedMore: a.More,
		Usage: sandbox.Usage{Wall: -1, CPU: -1, MemoryPeak: -1}}
	if a.ExitCode != nil {
		r.ExitCode = *a.ExitCode
	}
	if a.Signal != nil {
		r.Signal = *a.Signal
	}
	if a.Usage.WallMS != nil {
		r.Usage.Wall = time.Duration(*a.Usage.WallMS * float64(time.Millisecond))
	}
	if a.Usage.CPUMS != nil {
		r.Usage.CPU = time.Duration(*a.Usage.CPUMS * float64(time.Millisecond))
	}
	if a.Usage.PeakMemoryBytes != nil {
		r.Usage.MemoryPeak = *a.Usage.PeakMemoryBytes
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
