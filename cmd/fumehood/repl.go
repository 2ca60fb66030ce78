package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/repl"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type replFlags struct {
	boxFlags
	packageFlags

	language string
	out      string
}

func (a *app) newRepl() *cobra.Command {
	var f replFlags
	cmd := &cobra.Command{
		Use:   "repl [FLAGS]",
		Short: "Type code into a sandbox, line by line",
		Long: `Repl creates a sandbox and runs the code that you type, or that standard input contains, in one
interpreter. It needs no server. Control-C interrupts the code, Control-D ends the sandbox.`,
		Example: `  fumehood repl
  fumehood repl --lang javascript --workspace ./data`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runRepl(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.language, "lang", "l", defaultLanguage, "`LANGUAGE` of the code (default "+defaultLanguage+")")
	flags.StringVarP(&f.out, "out", "o", "", "save pictures and other values in `DIR`")
	f.boxFlags.add(cmd)
	f.boxFlags.addHost(cmd)
	f.packageFlags.add(flags)
	completions(cmd, "lang", languageNames()...)
	return cmd
}

// replSession runs typed code in a context, in a sandbox of this process.
type replSession struct {
	app     *app
	sandbox *engine.Sandbox
	context *engine.Context
	lines   terminal.LineReader
	to      destination

	statement repl.Statement // the lines before the one that the user types
	code      int            // exit code of the last statement
}

func (a *app) runRepl(ctx context.Context, f *replFlags) error {
	if a.json {
		return sandbox.Invalidf("--json", "is not supported by repl")
	}
	if a.Stdin == nil {
		return errNoStdin
	}
	spec, err := a.spec(&f.boxFlags)
	if err != nil {
		return err
	}
	to, err := a.openDestination(f.out, false)
	if err != nil {
		return err
	}
	defer to.close()
	return a.withEngine(engine.Config{}, &f.packageFlags, func(e *openedEngine) error {
		run := engine.OneShot{Backend: f.backend, Spec: spec}
		if err := e.chooseForImage(ctx, &run); err != nil {
			return err
		}
		e.recoverAside(ctx)
		r := &replSession{app: a, to: to}
		if r.sandbox, _, err = e.Create(ctx, engine.Create{Backend: run.Backend, Spec: run.Spec,
			// it ends with this process
			Ends: engine.Ends{Idle: new(time.Duration), In: engine.MaxLifetime}}); err != nil {
			return err
		}
		if r.context, err = r.sandbox.CreateContext(ctx, sandbox.DefaultContext, f.language, ""); err != nil {
			return err
		}
		box := r.sandbox.Info()
		a.reportUnenforced(box.Effective.Warnings, box.Effective.Unenforced, box.Spec.Named)
		return r.converse(ctx)
	})
}

// converse reads and runs code until the end of the input.
func (r *replSession) converse(ctx context.Context) error {
	language := r.context.Info().Language
	r.statement.Syntax = repl.Syntaxes[language]
	history, interactive := r.open(ctx, language)
	err := r.loop(ctx)
	if interactive {
		if err := history.Save(); err != nil {
			r.app.warn("the history was not saved: %s", terminal.OneLine(err.Error()))
		}
	} else if err == nil && r.code != 0 {
		err = exitError(r.code)
	}
	return err
}

// open opens the input: a terminal with a history, or a file or pipe.
func (r *replSession) open(ctx context.Context, language string) (_ *repl.History, interactive bool) {
	a := r.app
	out, _ := a.Stdout.(*os.File)
	if !terminal.Is(a.Stdin) || !terminal.Is(out) {
		r.lines = terminal.NewPiped(a.Stdin, repl.MaxStatement)
		return nil, false
	}
	path := a.env().UserStateDir()
	if path != "" {
		path = filepath.Join(path, "history-"+language)
	}
	h := repl.OpenHistory(a.host(), path)
	r.lines = terminal.NewEditor(a.Stdin, out, h, func(line string, cursor int) (int, []string) {
		return r.complete(ctx, line, cursor)
	})
	a.note(terminal.Faint, "%s in a sandbox (%s); Control-D ends it", language, r.sandbox.Info().Backend)
	return h, true
}

func (r *replSession) loop(ctx context.Context) error {
	for s := &r.statement; ; {
		prompt := s.Prompt
		if len(s.Lines()) > 0 {
			prompt = s.More
		}
		line, pasted, err := r.lines.ReadLine(ctx, prompt)
		ended := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, terminal.ErrInterrupted):
			s.Take()
			continue
		case err != nil && !ended:
			return err
		case !ended && len(s.Lines()) == 0 && slices.Contains(leaving, strings.TrimSpace(line)):
			return nil
		}
		var ready []string
		if ended {
			ready = []string{s.Take()}
		} else {
			s.Pasted = pasted
			ready = s.Add(line)
		}
		for _, code := range ready {
			if code == "" {
				continue
			}
			if err := r.run(ctx, code); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

var leaving = []string{"exit", "exit()", "quit", "quit()", ".exit"}

// run runs one statement and passes its output on. An exception of the code is not an error.
func (r *replSession) run(ctx context.Context, code string) error {
	x, err := r.sandbox.Start(ctx, engine.RunRequest{Context: sandbox.DefaultContext,
		Request: sandbox.Request{Language: r.context.Info().Language, Code: []byte(code)}})
	if err != nil {
		return r.refused(ctx, err)
	}
	view := r.app.newFollower(nil, "", api.SandboxRunRequest{}, r.to)
	var result *sandbox.Result
	passInterrupts := func(ctx context.Context) { r.passInterrupts(ctx, view) }
	followed := view.follow(ctx, passInterrupts, func(ctx context.Context) error {
		followed := x.Follow(ctx, 0, func(e engine.Event) error { return view.take(eventOf(e)) })
		result, err = x.Wait(ctx) // cancels the run if ctx has ended
		return followed
	})
	switch {
	case ctx.Err() != nil || err != nil:
		return r.refused(ctx, err)
	case followed != nil:
		return followed
	}
	if view.output.midLine[sandbox.Stdout] && terminal.Is(r.app.Stdout) {
		fmt.Fprintln(r.app.Stdout)
	}
	view.results.report()
	r.code = exitCodeOf(result)
	hints := sandbox.WithoutHint[sandbox.HintExitCode](result.Hints) // the code's own error is visible
	if hint := wording.REPL.Hint(hints); hint != "" && !r.app.quiet {
		r.app.say(terminal.Yellow, "hint: %s", terminal.OneLine(hint))
	}
	return nil
}

// refused reports why a statement did not run, for example a package that is unavailable. It returns an error if the
// sandbox or ctx has ended.
func (r *replSession) refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.sandbox.Ended() != nil {
		return err
	}
	r.app.fail(err)
	r.code = exitFailure
	return nil
}

func (r *replSession) passInterrupts(ctx context.Context, view *follower) {
	for {
		select {
		case <-view.interrupts:
		case <-ctx.Done():
			return
		}
		if err := r.context.Interrupt(ctx); err != nil && ctx.Err() == nil {
			r.app.warn("could not interrupt the code: %s", terminal.OneLine(textOf(err)))
		}
	}
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

// complete returns the names that fit at the cursor of the line that the user types.
func (r *replSession) complete(ctx context.Context, line string, cursor int) (start int, names []string) {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	above := strings.Join(append(slices.Clone(r.statement.Lines()), ""), "\n")
	start, names, err := r.context.Complete(ctx, above+line, len(above)+cursor)
	if err != nil {
		return 0, nil
	}
	return start - len(above), names
}
