package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/api"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/apiclient"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// replFlags are those of repl.
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
		Long: `Repl makes a sandbox and runs the code that you type, or that standard input has, piece by piece in
one interpreter. It needs no server. Control-C interrupts the code, Control-D ends the sandbox.`,
		Example: `  fumehood repl
  fumehood repl --lang javascript --workspace ./data`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.repl(cmd.Context(), &f) },
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

// repl is a conversation with a context in a sandbox of this process.
type repl struct {
	app     *app
	sandbox *engine.Sandbox
	context *engine.Context
	syntax  syntax
	typed   typed
	out     *filesOut
	outDir  string

	gathered *statement // the lines before the one that is typed
	code     int        // exit code of the last piece of code
}

func (a *app) repl(ctx context.Context, f *replFlags) (err error) {
	if a.json {
		return sandbox.Invalidf("--json", "repl is a conversation, and has no answer")
	}
	if a.Stdin == nil {
		return sandbox.Invalidf("standard input", "there is none")
	}
	spec, err := a.spec(&f.boxFlags)
	if err != nil {
		return err
	}
	spec.Lifetime = sandbox.Lifetime{Idle: engine.MaxLifetime, MaxAge: engine.MaxLifetime} // it ends with us
	r := &repl{app: a, outDir: f.out}
	if f.out != "" {
		if r.out, err = a.openFilesOut(f.out, false); err != nil {
			return err
		}
		defer r.out.close()
	}
	packager, err := a.packager(&f.packageFlags)
	if err != nil {
		return err
	}
	e, err := a.openEngine(engine.Config{Packages: packager})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	run := engine.Run{Backend: f.backend, Spec: spec}
	if err := e.chooseForImage(ctx, &run); err != nil {
		return err
	}
	e.recoverAside(ctx)
	if r.sandbox, _, err = e.Create(ctx, engine.Living{Backend: run.Backend, Spec: run.Spec}); err != nil {
		return err
	}
	if r.context, err = r.sandbox.CreateContext(ctx, sandbox.DefaultContext, f.language, ""); err != nil {
		return err
	}
	box := r.sandbox.Info()
	a.reportUnenforced(box.Effective.Warnings, box.Effective.Unenforced, box.Spec.Named)
	info := r.context.Info()
	r.syntax = syntaxes[info.Language]
	history, terminal := r.open(ctx, info.Language)
	err = r.loop(ctx)
	if history != nil {
		if err := history.save(); err != nil {
			a.warn("the history was not saved: %s", oneLine(err.Error()))
		}
	}
	if err == nil && !terminal && r.code != 0 {
		err = exitError(r.code)
	}
	return err
}

// open chooses how lines are read.
func (r *repl) open(ctx context.Context, language string) (_ *history, terminal bool) {
	a := r.app
	out, _ := a.Stdout.(*os.File)
	if !isTerminal(a.Stdin) || !isTerminal(out) {
		r.typed = newPiped(a.Stdin)
		return nil, false
	}
	h := a.openHistory(language)
	r.typed = newEditor(a.Stdin, out, h, func(line string, cursor int) (int, []string) { return r.complete(ctx, line, cursor) })
	a.note(faint, "%s in a sandbox (%s); Control-D ends it", language, r.sandbox.Info().Backend)
	return h, true
}

// loop reads and runs until the end of the input.
func (r *repl) loop(ctx context.Context) error {
	s := statement{syntax: r.syntax}
	r.gathered = &s
	for {
		prompt := r.syntax.prompt
		if !s.isEmpty() {
			prompt = r.syntax.more
		}
		line, pasted, err := r.typed.line(ctx, prompt)
		switch {
		case errors.Is(err, errLineInterrupted):
			s.take()
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case err == nil && s.isEmpty() && slices.Contains(leaving, strings.TrimSpace(line)):
			return nil
		}
		var ready []string
		if err == nil {
			s.pasted = pasted
			ready = s.add(line)
		} else {
			ready = []string{s.take()}
		}
		for _, code := range ready {
			if code == "" {
				continue
			}
			if err := r.run(ctx, code); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// leaving are the lines that end a repl.
var leaving = []string{"exit", "exit()", "quit", "quit()", ".exit"}

// run runs one piece of code and passes on what it shows. An exception of the code is no error.
func (r *repl) run(ctx context.Context, code string) error {
	x, err := r.sandbox.Start(ctx, engine.Exec{Context: sandbox.DefaultContext,
		Request: sandbox.Request{Language: r.context.Info().Language, Code: []byte(code)}})
	if err != nil {
		return err
	}
	view := r.app.newAttached(nil, "", apiclient.Run{}, r.out, r.outDir)
	view.show = r.app.newShow()
	view.values.show = view.show
	defer r.app.onInterrupt(view.interrupted)()
	aside, stop := context.WithCancel(ctx)
	view.work.Go(func() { r.passInterrupts(aside, view) })
	followed := x.Follow(ctx, 0, func(e engine.Event) error { return view.take(eventOf(e)) })
	result, err := x.Wait(ctx) // which cancels it once ctx has ended
	stop()
	view.work.Wait()
	view.show.end()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && r.sandbox.Ended() == nil: // nothing of it ran, as where its packages cannot be had
		r.app.fail(err)
		r.code = exitFailure
		return nil
	case err != nil:
		return err
	case followed != nil:
		return followed
	}
	if view.show.midLine[sandbox.Stdout] && isTerminal(r.app.Stdout) {
		fmt.Fprintln(r.app.Stdout)
	}
	view.values.report()
	r.code = exitCodeOf(result)
	hints := slices.DeleteFunc(result.Hints,
		func(h sandbox.Hint) bool { return h.Code == sandbox.HintExitCode }) // the code's own error is there
	if hint := answer.CommandLine.Hint(hints); hint != "" && !r.app.quiet {
		r.app.say(yellow, "hint: %s", oneLine(hint))
	}
	return nil
}

func (r *repl) passInterrupts(ctx context.Context, view *attached) {
	for {
		select {
		case <-view.interrupt:
		case <-ctx.Done():
			return
		}
		if err := r.context.Interrupt(ctx); err != nil && ctx.Err() == nil {
			r.app.warn("could not interrupt it: %s", oneLine(textOf(err)))
		}
	}
}

// eventOf is an event of the engine in the form of those of a server.
func eventOf(e engine.Event) apiclient.Event {
	var out apiclient.Event
	switch {
	case e.Kind == eventlog.Stdout || e.Kind == eventlog.Stderr:
		out.Piece = &apiclient.Piece{Stderr: e.Kind == eventlog.Stderr, Offset: e.Offset, Data: e.Data}
	case e.Step != nil:
		out.Step = e.Step
	case e.Shown != nil:
		out.Value = &answer.NewShown([]sandbox.Shown{*e.Shown})[0]
	case e.Ended != nil:
		out.Done = &api.Answer{Outcome: api.Outcome{Status: e.Ended.Status}}
	}
	return out
}

// complete returns the names that fit at the cursor of the line that is typed.
func (r *repl) complete(ctx context.Context, line string, cursor int) (start int, names []string) {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	above := strings.Join(append(slices.Clone(r.gathered.lines), ""), "\n")
	start, names, err := r.context.Complete(ctx, above+line, len(above)+cursor)
	if err != nil {
		return 0, nil
	}
	return start - len(above), names
}
