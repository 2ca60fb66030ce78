package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ownCode runs code in a sandbox of this process.
type ownCode struct {
	app     *app
	sandbox *engine.Sandbox
	context *engine.Context
}

func (o *ownCode) run(ctx context.Context, code string, view *follower) (result *sandbox.Result, err error) {
	x, err := o.sandbox.Start(ctx, engine.RunRequest{Context: sandbox.DefaultContext,
		Request: sandbox.Request{Language: o.context.Info().Language, Code: []byte(code)}})
	if err != nil {
		return nil, err
	}
	passInterrupts := func(ctx context.Context) { o.passInterrupts(ctx, x, view) }
	followed := view.follow(ctx, passInterrupts, func(ctx context.Context) error {
		followed := x.Follow(ctx, 0, func(e engine.Event) error { return view.take(eventOf(e)) })
		result, err = x.Wait(ctx) // cancels the run if ctx has ended
		return followed
	})
	if err == nil {
		err = followed
	}
	return result, err
}

// passInterrupts interrupts the code at the first Control-C, which keeps its variables, and cancels it at the second.
func (o *ownCode) passInterrupts(ctx context.Context, x *engine.Run, view *follower) {
	for seen := 0; ; seen++ {
		select {
		case <-view.interrupts:
		case <-ctx.Done():
			return
		}
		if seen > 0 {
			x.Cancel()
		} else if err := o.context.Interrupt(ctx); err != nil && ctx.Err() == nil {
			o.app.warn("could not interrupt the code: %s; interrupt again to end it", terminal.OneLine(textOf(err)))
		}
	}
}

func (o *ownCode) ended(error) bool { return o.sandbox.Ended() != nil }

func (o *ownCode) complete(ctx context.Context, code string, cursor int) (start int, names []string, err error) {
	return o.context.Complete(ctx, code, cursor)
}

// eventOf converts an event of the engine to one of a server.
func eventOf(e engine.Event) client.Event {
	var out client.Event
	switch {
	case e.Kind == eventlog.Stdout || e.Kind == eventlog.Stderr:
		out.Output = &client.Output{Stderr: e.Kind == eventlog.Stderr, Offset: e.Offset, Data: e.Data}
	case e.Step != nil:
		out.Step = e.Step
	case e.Result != nil:
		out.Result = &answer.NewResults([]sandbox.Value{*e.Result})[0]
	case e.Ended != nil:
		out.Done = &api.Outcome{Status: e.Ended.Status}
	}
	return out
}

// servedCode runs code in a living sandbox of a server.
type servedCode struct {
	client  *client.Client
	sandbox string                // its name
	request api.SandboxRunRequest // of each statement, without its code
}

// replIn runs what the user types in a living sandbox.
func (a *app) replIn(cmd *cobra.Command, f *replFlags, to destination) error {
	ctx, in := cmd.Context(), &f.in
	if in.sandbox == "" {
		return invalid("--in", "needs the name of a sandbox", "fumehood ps lists them")
	}
	if err := a.refuseForLiving(cmd, in.sandbox); err != nil {
		return err
	}
	c, err := a.openClient(&in.serverFlags)
	if err != nil {
		return err
	}
	defer c.Close()
	code := &servedCode{client: c, sandbox: in.sandbox}
	code.request.Context, code.request.Language = in.context, f.language
	code.request.Limits.TimeoutS = secondsOf(f.unchecked.Limits.Timeout)
	if slices.ContainsFunc(environmentNames, func(flag string) bool { return a.named(cmd, flag) }) {
		variables, err := a.environment(&f.environmentFlags)
		if err != nil {
			return err
		}
		code.request.Env = byName(variables)
	}
	if err := code.prepare(ctx, cmd.Flags().Changed("lang")); err != nil {
		return err
	}
	r := &replSession{app: a, to: to, language: code.request.Language, code: code}
	return r.converse(ctx, "the sandbox "+terminal.VisibleName(in.sandbox)+"; Control-D leaves it")
}

// prepare finds or makes the context. Its language counts unless one is named.
func (s *servedCode) prepare(ctx context.Context, named bool) error {
	box, err := s.client.Sandbox(ctx, s.sandbox)
	if err != nil {
		return err
	}
	r := &s.request
	if r.Context == "" {
		r.Context = sandbox.DefaultContext // each language has one, which its first run makes
		return nil
	}
	for _, c := range box.Contexts {
		if (c.Name == r.Context || string(c.ID) == r.Context) && !named {
			r.Language = c.Language
		}
	}
	return s.client.EnsureContext(ctx, s.sandbox, r.Context, r.Language)
}

func (s *servedCode) run(ctx context.Context, code string, view *follower) (*sandbox.Result, error) {
	view.client, view.sandbox, view.request = s.client, s.sandbox, s.request
	view.request.Code = &code
	if err := view.run(ctx, false); err != nil {
		return nil, err
	}
	result := resultOf(view.answer)
	result.Hints = api.TypedHints(view.answer.Hints)
	return result, nil
}

func (s *servedCode) ended(err error) bool {
	kind := sandbox.KindOf(err)
	return kind == sandbox.NotFound || kind == sandbox.Unavailable
}

func (s *servedCode) complete(ctx context.Context, code string, cursor int) (start int, names []string, err error) {
	box, err := s.client.Sandbox(ctx, s.sandbox)
	if err != nil {
		return 0, nil, err
	}
	id, err := contextID(&box, s.request.Context, s.request.Language, false)
	if err != nil {
		return 0, nil, err // its first run makes it
	}
	fit, err := s.client.Complete(ctx, s.sandbox, id, code, cursor)
	return fit.Start, fit.Names, err
}
